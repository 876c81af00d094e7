"""The server of a pass: one thread that owns the model, the books and the policy, and answers those who sit before it.

Connections bring their messages as calls into its queue, so nothing in here needs a lock. docs/protocol.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from omnilearn_core.api.messages import Assignment, Change
from omnilearn_runtime import codec
from omnilearn_runtime.faults import Faults, Point

from .account import Account
from .actor import Actor
from .central import Central, Gradient
from .following import Course, Roster, computing, course, members_of
from .frames import Kind
from .policies import Action, Apply, Discard, Empty, Fold, Issue, Policy, Rename
from .seat import Answer, Seat

log = logging.getLogger("omnilearn")


class Server(Actor):
    """Applies gradients as they come, as long as a pass lasts."""

    def __init__(
        self,
        central: Central,
        policy: Policy,
        account: Account,
        assignment: Assignment,
        roster: Roster,
        faults: Faults,
    ) -> None:
        super().__init__("omnilearn-server")
        self.central, self._policy, self._account = central, policy, account
        self.assignment, self._roster, self._faults = assignment, roster, faults
        self.pass_ = account.progress.epoch
        self.base = account.progress.round
        """The round whose state the members hold; others are given the state."""

        kept = account.standing.committed.to_list()
        self._began = {"server": (assignment.generation.number, self.base), "kept": kept}
        self.meeting: int | None = None
        """The generation in which all meet, once this server has ended."""

        self.on_event: Callable[..., object] = lambda *_: None
        """Told of all that happens to gradients, in order; for tests."""

        self._onward = 0
        self._closing = False
        self._seats: dict[str, Seat] = {}
        self._wanting: list[str] = []
        self._resting: set[str] = set()
        self._left: set[str] = set()
        self._arrived: dict[str, Gradient] = {}
        self._policy.members = computing(assignment, policy.server_group)

    def result(self) -> dict[str, Any]:
        """Return the state at the end; only after `stop`, or after a meeting was called."""
        self.join()
        if self.error is not None:
            raise self.error
        return self._tree()

    def state(self) -> Tensor | None:
        """Return the present state as bytes; None if the server has ended meanwhile."""
        return self.fetch(self._packed)

    @property
    def over(self) -> bool:
        """True if it serves no more."""
        return self._gone or self.meeting is not None

    @property
    def round(self) -> int:
        """How far it is; once it is over, the round of the meeting."""
        return self._account.progress.round

    # The server's thread

    def _turn(self, event: Callable[[], None]) -> None:
        self._look()
        if not self.over:
            event()
            self._hand_out()
            self._end()

    def _dismiss(self) -> None:
        """Tell everybody that it is over."""
        for seat in self._seats.values():
            seat.answer(*self.farewell())

    def farewell(self) -> Answer:
        """Return the answer to whoever asks when it is over."""
        if self.meeting is None:
            return Kind.GONE, {}, []
        return Kind.MEET, {**self._news(), "generation": self.meeting, "onward": self._onward}, []

    def hello(self, seat: Seat) -> None:
        """Take somebody in; whatever an earlier connection of it was doing is void."""
        if not self._is_member(seat):
            seat.answer(Kind.GONE, {})
            return
        self._drop(seat.worker)
        self._seats[seat.worker] = seat
        seat.parameters = seat.parameters or self.central.layout.new_parameters()
        seat.answer(Kind.STATE, {}, [] if seat.holds == self.base else [self._packed().numpy().data])

    def closed(self, seat: Seat) -> None:
        """Take note that a connection is gone."""
        if self._seats.get(seat.worker) is seat:
            self._drop(seat.worker)

    def ask(self, seat: Seat, text: dict[str, Any]) -> None:
        """Note what a worker wants."""
        if not self._knows(seat, text):
            return
        worker = seat.worker
        idle = self._account.of(worker) is None and worker not in self._wanting
        if idle and not seat.answered:
            self._left.discard(worker)
            self._wanting.append(worker)

    def leave(self, seat: Seat, text: dict[str, Any]) -> None:
        """Take note that a worker has left the pass, and waits for the others."""
        if self._knows(seat, text):
            self._left.add(seat.worker)
            self._retire(seat.worker)

    def push(self, seat: Seat, text: dict[str, Any], gradient: Gradient) -> None:
        """Take a gradient."""
        if not self._knows(seat, text):
            self.central.give_back(gradient.flat)
            return
        lease = self._account.of(seat.worker)
        if lease is None or [lease.number, lease.samples.to_list()] != [text.get("lease"), text.get("samples")]:
            log.warning("%s sent a gradient of samples that it does not have: it is not used", seat.worker)
            self.central.give_back(gradient.flat)
            self._drop(seat.worker)
            seat.answer(Kind.GONE, {})
            return
        self._faults.pass_by(Point.PUSHED, self._account.progress.round)
        self.on_event("arrived", seat.worker)
        if gradient.finite:
            self._arrived[seat.worker] = gradient
            self._do(self._policy.arrive(seat.worker))
            return
        log.warning("a gradient of %s is skipped: it is not finite, or its weights sum to 0", seat.worker)
        seat.fate = self._fate("skipped")
        self.central.give_back(gradient.flat)
        self._schedule(self._account.skip(seat.worker))
        self._wanting.append(seat.worker)

    def standby(self, seat: Seat) -> None:
        """Give the state to whoever would go on with it, if it is newer than what it has."""
        if seat.holds >= self._account.progress.round:
            seat.answer(Kind.WAIT, {})
            return
        self._faults.pass_by(Point.SNAPSHOT, self._account.progress.round)
        seat.answer(Kind.STATE, {"round": self._account.progress.round}, [self._packed().numpy().data])

    def _knows(self, seat: Seat, text: dict[str, Any]) -> bool:
        if self._seats.get(seat.worker) is not seat or text.get("pass") != self.pass_:
            seat.answer(Kind.GONE, {})
            return False
        seat.share, seat.built = int(text.get("share", 0)), int(text.get("built", 0))
        return True

    def _is_member(self, seat: Seat) -> bool:
        return (seat.worker, seat.attempt) in members_of(self.assignment)

    def _do(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case Fold(worker, slot, delay):
                    self.central.fold(slot, self._arrived.pop(worker))
                    self._account.fold(worker, slot)
                    self._tell(worker, "applied", delay)
                case Discard(worker, delay):
                    self.central.give_back(self._arrived.pop(worker).flat)
                    self._account.give_back(worker)
                    self._tell(worker, "discarded", delay)
                case Apply(slots, rate):
                    self.central.apply(slots, rate)
                    self._schedule(self._account.apply(slots))
                    self._faults.pass_by(Point.APPLIED, self._account.progress.round)
                case Empty(slot):
                    self.central.empty(slot)
                    self._account.empty(slot)
                case Rename(old, new):
                    self.central.rename(old, new)
                    self._account.rename(old, new)
                case Issue(worker):
                    self._wanting.append(worker)

    def _tell(self, worker: str, fate: str, delay: int) -> None:
        self.on_event(fate, worker, delay)
        if worker in self._seats:
            self._seats[worker].fate = self._fate(fate) | {"delay": delay}

    def _fate(self, fate: str) -> dict[str, Any]:
        return {"fate": fate, "at": self._account.progress.round + 1, **self._began}

    def _schedule(self, due: int) -> None:
        if not self.central.managed.scheduler_per_epoch:
            for _ in range(due):
                self.central.managed.schedule()

    def _news(self) -> dict[str, Any]:
        progress = self._account.progress
        told = ("round", "step", "offset", "samples", "skipped", "skipped_in_a_row")
        return {
            "generation": self.assignment.generation.number,
            "progress": {name: getattr(progress, name) for name in told},
        }

    def _hand_out(self) -> None:
        """Give samples and parameters to those who wait for them, in their order."""
        for worker in list(self._wanting):
            seat = self._seats[worker]
            if not self._is_member(seat):  # it leaves, and what it has computed is in
                self._retire(worker)
                seat.answer(Kind.GONE, self._news())
                continue
            lease = None if self._closing else self._account.lease(worker, seat.share)
            if lease is not None:
                self._issue(seat, lease.number, lease.samples.to_list())
            elif seat.share < 1 and worker not in self._resting:
                self._resting.add(worker)
                self._do(self._policy.leave(worker))

    def _issue(self, seat: Seat, lease: int, samples: list[list[int]]) -> None:
        self._wanting.remove(seat.worker)
        self._resting.discard(seat.worker)
        self._policy.begin(seat.worker)
        self.on_event("issued", seat.worker, samples)
        flat = seat.parameters or self.central.layout.new_parameters()
        self.central.layout.read_parameters(flat)
        seat.answer(Kind.WORK, {"lease": lease, "samples": samples, **self._news()}, flat.views)

    def _retire(self, worker: str) -> None:
        """Count on a worker no more, until it asks again."""
        self._do(self._policy.leave(worker))
        self._account.give_back(worker)
        self._wanting = [each for each in self._wanting if each != worker]
        self._resting.discard(worker)

    def _drop(self, worker: str) -> None:
        self._retire(worker)
        self._seats.pop(worker, None)
        self._left.discard(worker)

    def _look(self) -> None:
        """Follow the generations."""
        newest = self._roster.newest
        match course(self.assignment, newest, self._roster):
            case Course.GIVE_UP:
                self._gone = True
            case Course.ADOPT if newest is not None:
                lost = set(members_of(self.assignment)) - set(members_of(newest))
                self.assignment = newest
                self._policy.members = computing(newest, self._policy.server_group)
                for worker, _ in lost if newest.change is Change.URGENT else ():
                    self._drop(worker)
            case Course.HAND_OVER if newest is not None:
                staying = [seat for seat in self._seats.values() if (seat.worker, seat.attempt) in members_of(newest)]
                if all(seat.built >= newest.generation.number for seat in staying):
                    self._closing, self._onward = True, newest.generation.number

    def _end(self) -> None:
        """Call the meeting if nothing is left to be done in this pass, or by this server."""
        everybody = {member.worker for member in self.assignment.members}
        left = everybody <= self._left
        if not self._account.drained or (self._account.remains and not self._closing and not left):
            return
        self.on_event("flushed")
        self._do(self._policy.flush())
        if self._account.complete or self._closing or left:
            self._account.close()
            self.on_event("met")
            self.meeting = self.assignment.generation.number

    def _tree(self) -> dict[str, Any]:
        return {
            "progress": self._account.progress.to_tree(),
            "managed": self.central.managed.to_tree(),
            "standing": self._account.standing.to_tree(),
        }

    def _packed(self) -> Tensor:
        return codec.to_bytes_tensor(codec.pack(self._tree()), check_body=False)
