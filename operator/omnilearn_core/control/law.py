"""One decision of any control law: ``(state, situation) → (state, shares, why)``.

A law brings what it remembers (its memory) and two pure functions, `learn` and `propose`; `decide` does what is
the same for all: it sifts the reports, checks the bounds, keeps the plan's version and counts what was refused.
State is plain data that survives JSON, so that another process can go on with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from .bounded import Count, Share, Time
from .reports import Report, Situation, sift
from .shares import ImpossibleSplitError
from .words import listing

MemoryT = TypeVar("MemoryT")


@dataclass(frozen=True, slots=True)
class State(Generic[MemoryT]):
    """What a law hands to its next decision."""

    law: str
    memory: MemoryT
    version: Count
    shares: dict[str, Share]
    newest: dict[str, Time]
    refused: dict[str, Count]


@dataclass(frozen=True, slots=True)
class Proposal(Generic[MemoryT]):
    """What a law would have: the shares, in words why, and what it remembers of having proposed them."""

    memory: MemoryT
    shares: dict[str, int]
    why: str


@dataclass(frozen=True, slots=True)
class Decision(Generic[MemoryT]):
    """The outcome: the shares in force from now on, whether they are new, and one sentence why."""

    state: State[MemoryT]
    changed: bool
    why: str

    @property
    def shares(self) -> dict[str, int]:
        """The plan: samples per step of each member."""
        return self.state.shares


class Law(Protocol[MemoryT]):
    """A control law: its parameters are its fields, its functions are pure."""

    @property
    def name(self) -> str:
        """The name that users write in `spec.batch.law`."""
        ...

    def fresh(self) -> MemoryT:
        """Return the memory of a law that has seen nothing."""
        ...

    def learn(self, memory: MemoryT, heard: tuple[Report, ...], situation: Situation) -> MemoryT:
        """Return the memory after hearing reports."""
        ...

    def propose(self, memory: MemoryT, situation: Situation, shares: Mapping[str, int] | None) -> Proposal[MemoryT]:
        """Return the shares to use; ``shares`` are those in force, or None if they do not fit any more."""
        ...


def decide(law: Law[MemoryT], state: State[MemoryT] | None, situation: Situation) -> Decision[MemoryT]:
    """Decide the shares from what is remembered and what was reported.

    Raises ImpossibleSplitError, with a sentence for the user, if the members cannot share the global batch.
    """
    before = state or State(law.name, law.fresh(), 0, {}, {}, {})
    sifted = sift(situation, before.shares, before.newest, before.refused)
    memory = law.learn(before.memory, sifted.heard, situation)
    workers = [member.worker for member in situation.members]
    if len(set(workers)) != len(workers):
        raise ImpossibleSplitError("a worker is listed twice among the members: give every worker its own name")
    fits = situation.allows(before.shares)
    proposal = law.propose(memory, situation, before.shares if fits else None)
    changed = proposal.shares != before.shares
    after = State(
        law.name,
        proposal.memory,
        before.version + changed,
        proposal.shares,
        sifted.newest,
        sifted.refused,
    )
    why = proposal.why if fits else f"{_news(before.shares, workers)}: {proposal.why}"
    return Decision(after, changed, why)


def _news(before: Mapping[str, int], workers: list[str]) -> str:
    if not before:
        return f"first plan for {len(workers)} members"
    joined = [worker for worker in workers if worker not in before]
    left = sorted(before.keys() - set(workers))
    parts = [f"{listing(names)} {verb}" for names, verb in ((joined, "joined"), (left, "left")) if names]
    return " and ".join(parts) or "new bounds"
