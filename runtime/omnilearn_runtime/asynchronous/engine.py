"""The engine of asynchronous training: `Rounds`, with passes over the data that a server leads.

In a pass there is no reduction: a worker is given samples and parameters, sends a gradient, and is answered with the
next.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from omnilearn_runtime.element import Kind as RoundKind
from omnilearn_runtime.faults import Point
from omnilearn_runtime.group import Group
from omnilearn_runtime.ledger import Intervals
from omnilearn_runtime.timing import Phase
from omnilearn_runtime.work import Committed, Open

from .client import InVainError
from .frames import Frame, Kind
from .meeting import MeetingRounds

log = logging.getLogger("omnilearn")

_AGAIN_SECONDS = 0.1


class AsynchronousRounds(MeetingRounds):
    """One worker's part in a job whose first member is also a server."""

    _pass: tuple[int, int] | None = None
    """The pass that the script is in: its number, and where it ends."""

    _lease = 0

    # A pass

    def pass_through(self, epoch: int, end: int) -> None:
        """Begin, or go on with, a pass that is complete at ``end``."""
        self._pass, self._answer = (epoch, end), None

    def next_work(self) -> Open | None:
        """Return the next samples to compute; None when the pass is complete and all have met."""
        while not self._is_through():
            answer, self._answer = self._answer, None
            if answer is None:
                self._answer = self._ask(Kind.ASK)
            elif answer.kind is Kind.WORK:
                return self._open(answer)
            else:
                self._obey(answer)
        self._pass = None
        return None

    def _is_through(self) -> bool:
        """Tell whether the pass is complete, or the others are past it."""
        if self._pass is None:
            return True
        (epoch, end), progress = self._pass, self.progress
        return progress.epoch > epoch or (progress.epoch == epoch and progress.offset >= end > 0)

    def be_member(self) -> None:
        """Take part in what all members do together."""
        self._leave_pass()
        super().be_member()

    def begin(self, kind: RoundKind, epoch: int, interval: Intervals, size: int = 0) -> Open:
        """Open a round of all members."""
        self._leave_pass()
        return super().begin(kind, epoch, interval, size)

    def _leave_pass(self) -> None:
        """Wait for the others to come to the end of a pass, if the script has left one before its end."""
        while not self._is_through():
            self._drop_work()
            answer = self._ask(Kind.LEAVE)
            if answer is not None and answer.kind is not Kind.WORK:
                self._obey(answer)
            if answer is not None and answer.kind is Kind.MEET:
                break
        self._pass = None

    def complete(self) -> bool:
        """Send the gradient of what was computed; False if there is more to compute first."""
        opened = self.open
        if opened is None or opened.kind is not RoundKind.STEP:
            return super().complete()
        self.watch.mark(Phase.COMPUTE)
        if opened.pending:
            return False
        self._faults.pass_by(Point.PUSHING, self.seen.round + 1)
        self._answer = answer = self._ask(Kind.PUSH, self._desk.gradient(opened, self._lease))
        self._drop_work()
        if answer is not None:
            self._tell(opened, answer)
        return True

    def _open(self, answer: Frame) -> Open:
        """Begin to compute what the server has given."""
        epoch, end = self._need_pass()
        self._desk.take_parameters()
        self._lease, samples = int(answer.text["lease"]), Intervals.from_list(answer.text["samples"])
        self.open = opened = Open(RoundKind.STEP, epoch, samples, end, pending=samples)
        opened.as_planned = samples.size == self._desk.asked[1]
        self.watch.mark(Phase.COMPUTE)
        self._faults.pass_by(Point.LEASED, self.seen.round)
        return opened

    def _tell(self, opened: Open, answer: Frame) -> None:
        """Tell what became of a gradient."""
        group, fate, delay = self._need_group(), answer.text.get("fate"), answer.text.get("delay")
        samples = Intervals.of() if fate in (None, "discarded") else opened.held
        (version, share), lap = self._desk.asked, self.watch.lap(0.0)
        seen = replace(self.seen, round=int(answer.text.get("at", self.seen.round)))
        number, base = answer.text.get("server", (0, 0))
        server, kept = (int(number), int(base)), Intervals.from_list(answer.text.get("kept", []))
        self.membership.round = self.seen.round
        self._on_commit(
            Committed(
                RoundKind.STEP, seen, group, version, share, Intervals.of((0, opened.size)), samples, samples.size,
                opened.mean_loss, lap, opened.disturbed, opened.as_planned, server=server, kept=kept,
                delay=None if delay is None else int(delay),
            )
        )  # fmt: skip
        self.learner.check(self.seen.skipped_in_a_row)
        self.membership.check()

    def _ask(self, kind: Kind, text: dict[str, Any] | None = None) -> Frame | None:
        """Ask the server; None if it could not answer, and all begins anew."""
        if self.group is None:
            super().be_member()
        group, (epoch, _) = self._need_group(), self._need_pass()
        try:
            if not self._desk.connected and not self._take_seat(group):
                return None
            answer = self._desk.ask(kind, epoch, lambda: None, text)
        except OSError as error:
            self._lost(group, error)
            return None
        finally:
            self.watch.mark(Phase.EXPOSED)
        self._note(answer)
        self._follow(answer)
        return answer

    def _take_seat(self, group: Group) -> bool:
        """Connect to the server; it is begun first, if it is to be here. False if it serves no more."""
        self._drop_work()
        if group.rank == 0:
            self.learner.go_back()
            self.host.begin(self.learner.managed, self.progress, self._standing, self._need_pass(), group)
        answer, state = self._desk.greet(group, self.progress.round, lambda: self._is_left(group))
        if state is not None:
            self.load(state)
        if answer.kind is Kind.STATE:
            self._desk.until(lambda: self._is_left(self._need_group()))
            return True
        self._obey(answer)
        return False

    def _note(self, answer: Frame) -> None:
        """Take note of how far the server is."""
        told, (epoch, end) = answer.text.get("progress"), self._need_pass()
        if told is not None:
            self._seen = replace(self.progress, epoch=epoch, size=end, **told)

    def _lost(self, group: Group, error: OSError) -> None:
        """Begin anew after a connection was lost: with the same server if it is there, else in another generation."""
        self._desk.hang_up()
        self.host.check()
        self._drop_work()
        if isinstance(error, InVainError) or self._is_left(group):
            self.membership.check()
            self.regroup(group)
        else:
            log.info("the connection to the server is lost: %s", error)

    def _obey(self, answer: Frame) -> None:
        """Do what the server says instead of giving samples: meet the others, or begin anew."""
        group = self._need_group()
        if answer.kind is Kind.MEET:
            self._meet(group, int(answer.text["generation"]), int(answer.text.get("onward", 0)))
            return
        self._desk.hang_up()
        known = self.membership
        if known.wait(lambda: self._is_left(group) or not known.is_in(), _AGAIN_SECONDS):
            self.regroup(group)

    def _need_pass(self) -> tuple[int, int]:
        if self._pass is None:
            raise RuntimeError("there is no pass over the data")
        return self._pass
