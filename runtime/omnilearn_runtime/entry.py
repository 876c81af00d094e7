"""Entering a generation: wait for its group, roll call, receive or give the state. Used by `rounds`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from omnilearn_core.api.messages import Change

from . import codec
from .faults import Faults, Point
from .group import Group
from .membership import Membership
from .rollcall import Record, Verdict, judge
from .waiting import Ending

log = logging.getLogger("omnilearn")

# A state travels in pieces, so that those who only pass it on need little memory.
_CHUNK_BYTES = 32 * 2**20


class Stateful(Protocol):
    """What is healed."""

    @property
    def aligns(self) -> bool:
        """True if everybody takes something over whenever somebody is healed."""
        ...

    def record(self, *, fresh: bool, starting: bool) -> Record:
        """Return what this worker says in a roll call."""
        ...

    def to_tree(self) -> dict[str, Any]:
        """Return the state as tensors and plain values."""
        ...

    def load(self, tree: dict[str, Any]) -> None:
        """Become that state."""
        ...

    def align(self, tree: dict[str, Any]) -> None:
        """Take over what another one of the same round may have otherwise."""
        ...


@dataclass(frozen=True, slots=True)
class Entry:
    """A generation that was entered, and what the roll call found."""

    group: Group
    verdict: Verdict


class Gone(Exception):  # noqa: N818 - not an error: the generation is no longer wanted
    """The generation was superseded or has failed while it was being entered."""


def enter(membership: Membership, come_in: Callable[[Group], Verdict], after: Group | None) -> Entry:
    """Enter the newest generation after ``after``, by ``come_in``, which raises Gone; waits until there is one."""
    while True:
        group = membership.next_group(after)
        membership.leave()
        try:
            verdict = come_in(group)
        except Gone:
            group.release()
            after = group
            continue
        except BaseException:
            # Nobody else knows of it yet, and to drop it here could mean to wait for the peers.
            group.release()
            raise
        membership.enter(group, verdict.top)
        return Entry(group, verdict)


def roll_call(
    group: Group, membership: Membership, state: Stateful, faults: Faults, *, any_newer: bool = True
) -> Verdict:
    """Find out who is where, and heal those who are behind; raises Gone if the generation has to be left."""
    assignment = group.assignment
    starting = assignment.change is Change.START
    # Who has entered the generation is new no more: it may have become the furthest of all, as a server does.
    fresh = group.is_fresh and membership.current is not group
    record = state.record(fresh=fresh, starting=starting)
    faults.pass_by(Point.ROLL_CALL, record.round)
    records = [record]
    if group.size > 1:
        operation, gathered = group.all_gather(record.to_tensor())
        if membership.wait_for([operation], group, any_newer=any_newer) is not Ending.COMPLETE:
            raise Gone
        records = [Record.from_tensor(each) for each in gathered]
    verdict = judge(records, group.names, assignment.change, group.rank)
    if verdict.needy or verdict.unlike:
        _heal(group, membership, state, verdict, faults, any_newer=any_newer)
    return verdict


def _heal(
    group: Group, membership: Membership, state: Stateful, verdict: Verdict, faults: Faults, *, any_newer: bool
) -> None:
    """Send the state from its source to those who need it; it is applied only when it is there as a whole."""
    needs, gives = group.rank in verdict.needy, group.rank == verdict.source
    takes = needs or (state.aligns and not gives)
    faults.pass_by(Point.HEALING, verdict.top)
    whole = codec.to_bytes_tensor(codec.pack(state.to_tree()), check_body=False) if gives else None
    size = torch.tensor([0 if whole is None else whole.numel()], dtype=torch.int64)
    _broadcast(group, membership, size, verdict.source, any_newer=any_newer)
    if whole is None:
        whole = torch.empty(int(size) if takes else 0, dtype=torch.uint8)
    for begin in range(0, int(size), _CHUNK_BYTES):
        length = min(_CHUNK_BYTES, int(size) - begin)
        chunk = whole[begin : begin + length] if takes or gives else torch.empty(length, dtype=torch.uint8)
        _broadcast(group, membership, chunk, verdict.source, any_newer=any_newer)
    if needs:
        log.info("received the state of round %d: %.1f MB", verdict.top, int(size) / 1e6)
        state.load(codec.unpack(codec.from_bytes_tensor(whole)))
    elif takes:
        state.align(codec.unpack(codec.from_bytes_tensor(whole)))
    faults.pass_by(Point.HEALED, verdict.top)


def _broadcast(group: Group, membership: Membership, tensor: Tensor, source: int, *, any_newer: bool) -> None:
    operation = group.broadcast(tensor, source)
    if membership.wait_for([operation], group, any_newer=any_newer) is not Ending.COMPLETE:
        raise Gone
