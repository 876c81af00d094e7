"""Generations of an asynchronous job: how they are entered, and when all members meet. Under `engine`.

Generations are entered one by one, without a roll call, as long as the server stays. Between passes, and when the
server has changed, all members meet: a roll call heals everybody with the state of whoever is the furthest.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from omnilearn_core.api.messages import Change
from omnilearn_core.api.strategy import Asynchronous
from omnilearn_runtime.element import Kind as RoundKind
from omnilearn_runtime.entry import Gone, roll_call
from omnilearn_runtime.faults import Faults, Point
from omnilearn_runtime.group import Group
from omnilearn_runtime.ledger import Intervals
from omnilearn_runtime.membership import Membership
from omnilearn_runtime.progress import Progress
from omnilearn_runtime.rollcall import Verdict
from omnilearn_runtime.rounds import Rounds
from omnilearn_runtime.strategies.remote import RemoteLearner
from omnilearn_runtime.work import Committed

from .account import Standing
from .central import check_suitable
from .client import InVainError
from .desk import Desk, is_left
from .frames import Frame, Kind
from .host import Host
from .standby import Standby

log = logging.getLogger("omnilearn")


class MeetingRounds(Rounds):
    """One worker's part in a job whose members meet now and then."""

    learner: RemoteLearner

    def __init__(
        self,
        learner: RemoteLearner,
        membership: Membership,
        faults: Faults,
        on_commit: Callable[[Committed], None],
        options: Asynchronous,
        who: tuple[str, int, str],
    ) -> None:
        check_suitable(learner.managed)
        super().__init__(learner, membership, faults, on_commit)
        self._who = who[:2]
        self.host = Host(who[2], membership, faults, options)
        self._desk = Desk(who[:2], learner, membership, self.host, options.gradients)
        self._standby = Standby(who[:2], lambda: membership.current)
        self._standing = Standing()
        self._seen: Progress | None = None
        self._answer: Frame | None = None

    # The state

    @property
    def seen(self) -> Progress:
        """How far the job is, as far as this worker knows; `progress` is how far it was when all met."""
        return self._seen or self.progress

    def to_tree(self) -> dict[str, Any]:
        """Return the state of the last meeting, with where the pass stood."""
        return super().to_tree() | {"standing": self._standing.to_tree()}

    def newest_tree(self) -> dict[str, Any]:
        """Return the server's state, if it is here."""
        return self.host.state() or self.to_tree()

    def load(self, tree: dict[str, Any]) -> None:
        """Become that state."""
        super().load(tree)
        self._standing, self._seen = Standing.from_tree(tree["standing"]), None
        self._standby.forget()

    def close(self) -> None:
        """Let go of server and connections."""
        self._standby.close()
        self._desk.hang_up()
        self.host.close()
        super().close()

    # Generations

    def _meet(self, group: Group, generation: int, onward: int) -> None:
        """Meet all members in a generation, and go on to the next one if somebody else serves then."""
        self._faults.pass_by(Point.MEETING, self.seen.round)
        self._settle()
        if group.id.number != generation:
            self.regroup(group)
        else:
            try:
                verdict = self._roll_call(group, any_newer=False)
            except Gone:
                self.regroup(group)
            else:
                self.membership.round = verdict.top
                self._divide(group)
        now = self.group
        if now is not None and now.id.number < onward:
            self.regroup(now)

    def regroup(self, after: Group | None) -> None:
        """Enter a generation newer than ``after``."""
        self._settle()
        super().regroup(after)

    def _come_in(self, group: Group) -> Verdict:
        """Enter a generation: meet the others, or be taken in by a server that trains."""
        if group.assignment.change is not Change.START and group.rank > 0:
            holds = -1 if group.is_fresh else self.progress.round
            try:
                answer, state = self._desk.greet(group, holds, lambda: self._is_passed(group))
            except InVainError:
                raise Gone from None
            if state is not None:
                self.load(state)
            if answer.kind is Kind.STATE:
                self._desk.until(lambda: self._is_left(self._need_group()))
                return Verdict(self.progress.round, 0, frozenset(), Intervals.of())
            if answer.kind is not Kind.MEET or answer.text["generation"] != group.id.number:
                raise Gone
        return self._roll_call(group, any_newer=True)

    def _roll_call(self, group: Group, *, any_newer: bool) -> Verdict:
        if group.rank == 0:
            self.host.endpoint.meet(group.id.number)
        kept = self._standby.newer_than(self.progress.round)
        if kept is not None:
            log.info("going on from the state that the server gave at round %d", kept["progress"]["round"])
            self.load(kept)
        verdict = roll_call(group, self.membership, self, self._faults, any_newer=any_newer)
        # All have been told: whoever comes now waits for the next server.
        self.host.endpoint.serve(None)
        return verdict

    def _settle(self) -> None:
        """Have the state of the last meeting again; or the server's, if it was here."""
        self._drop_work()
        self._desk.hang_up()
        self.learner.go_back()
        self._answer, self._seen = None, None
        tree = self.host.end()
        if tree is not None:
            self.load(tree)

    def _drop_work(self) -> None:
        if self.open is not None and self.open.kind is RoundKind.STEP:
            self.learner.forget()
            self.open = None

    def _is_left(self, group: Group) -> bool:
        return is_left(self.membership, group, self._who[0])

    def _is_passed(self, group: Group) -> bool:
        return self.membership.lets_go() or self.membership.is_superseded(group, any_newer=True)

    def _follow(self, answer: Frame) -> None:
        """Enter the generation that the server is in, if its group stands here: without a roll call."""
        group, newest, known = self._need_group(), self.membership.newest, self.membership
        if newest is None or not group.id.number < newest.generation.number <= answer.text.get("generation", 0):
            return
        if answer.kind is Kind.WORK and known.is_in(newest) and known.has_built(newest) and not self._is_left(group):
            following = known.next_group(group)
            known.leave()
            known.enter(following, self.seen.round)
            self._divide(following)

    def _divide(self, group: Group) -> None:
        plan = group.assignment.plan
        self.division.enter(plan.version, plan.in_order(group.names), self.progress.round + 1, Intervals.of())

    def _need_group(self) -> Group:
        if self.group is None:
            raise RuntimeError("this worker is in no generation")
        return self.group
