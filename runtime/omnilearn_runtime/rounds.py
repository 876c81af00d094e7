"""The engine: opens rounds, hands out their samples, reduces them, commits, and regroups when members change.

Runs in the user's training thread only. `session` drives it; docs/protocol.md has the rules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .attempt import Attempt, part_of, step_part
from .claiming import Claimer
from .division import Division
from .element import Kind, Whole
from .entry import enter, roll_call
from .faults import Faults, Point
from .group import Group
from .holding import Holding
from .ledger import Intervals
from .membership import Membership
from .probing import Prober
from .reduction import Reduction
from .rollcall import Verdict
from .strategies import Learner
from .timing import Phase, Stopwatch
from .waiting import Ending
from .work import Committed, Open, audited, batches_of


class Rounds(Holding):
    """One worker's part in the rounds of a job."""

    def __init__(
        self, learner: Learner, membership: Membership, faults: Faults, on_commit: Callable[[Committed], None]
    ) -> None:
        super().__init__(learner)
        self.membership, self._faults, self._on_commit = membership, faults, on_commit
        self.watch = Stopwatch()
        self.division = Division()
        self._claimer = Claimer(membership, self.division, faults)
        self.prober = Prober(membership)
        self._previous: Group | None = None
        self.sent: Attempt | None = None
        """The round that is on its way while the one after it is open."""

        self._steps = 0

    # Membership

    @property
    def group(self) -> Group | None:
        """The generation that this worker is in."""
        return self.membership.current

    @property
    def rank(self) -> int:
        """The place of this worker in its generation."""
        return 0 if self.group is None else self.group.rank

    def be_member(self) -> None:
        """Take part: join if that has not been done, regroup if this generation has to be left."""
        self.membership.join()
        group = self.group
        if group is None or self.membership.is_superseded(group):
            self.regroup(group)

    def regroup(self, after: Group | None) -> None:
        """Enter a generation newer than ``after``; what is held of the open round stays held."""
        if self.open is not None:
            self.open.disturbed = True
        self._drop_previous()
        self._claimer.close()
        self._reduction = None
        if self.sent is not None:
            # Its samples are computed again, and what was computed since has begun at another model.
            self.sent = self.open = None
            self.learner.lose()
        before = self.progress.round
        entry = enter(self.membership, self._come_in, after)
        self.learner.join(entry.group.teams)
        plan, names = entry.group.assignment.plan, entry.group.names
        self.division.enter(plan.version, plan.in_order(names), self.progress.round + 1, entry.verdict.held)
        if self.open is not None and self.progress.round != before:
            self.open = None
        elif self.open is not None:
            self._share_out(self.open)
        self.watch.mark(Phase.OTHER)

    def _come_in(self, group: Group) -> Verdict:
        self.follow(group.assignment.choice)
        return roll_call(group, self.membership, self, self._faults)

    def _switch(self, group: Group) -> None:
        """Change to the generation that all have built, with everybody at the same round."""
        self._faults.pass_by(Point.SWITCHING, self.progress.round)
        self.membership.detach()
        try:
            self.regroup(group)
        except BaseException:
            group.release()
            raise
        # The old group is kept until the new one has committed a round: a peer may still be reading from it.
        self._previous = group

    def close(self) -> None:
        """Let go of what only this engine knows of."""
        self._drop_previous()
        self._claimer.close()
        self._reduction = self.sent = None

    def _drop_previous(self) -> None:
        if self._previous is not None:
            self._previous.release()
            self._previous = None

    # A round

    def begin(self, kind: Kind, epoch: int, interval: Intervals, size: int = 0) -> Open:
        """Open the next round over the positions of ``interval``."""
        if self.open is not None:
            # The script has left its loop in the middle of a step.
            self._forget_held()
            self.division.abandon()
            self._claimer.close()
        while self.sent is not None and kind is not Kind.STEP and not self._take_in(self.sent):
            self.regroup(self.group)
        self.watch.mark(Phase.OTHER)
        self.learner.refresh()
        opened = self.open = Open(kind, epoch, interval, size)
        self._share_out(opened)
        share = self.division.share(self.rank, ahead=self.sent is not None)
        opened.as_planned = opened.pending.size == share * opened.steps
        self._faults.pass_by(Point.COMPUTING if kind is Kind.STEP else Point.EVALUATING, self._number)
        return opened

    @property
    def _number(self) -> int:
        """The number of the open round."""
        return self.progress.round + (1 if self.sent is None else 2)

    def _share_out(self, opened: Open) -> None:
        """Give everybody its part of what nobody holds: all of it at first, the gaps after a loss."""
        step = opened.kind is Kind.STEP
        batch = self.membership.global_batch if step else None
        steps = [opened.interval] if batch is None else batches_of(opened.interval, batch)
        parts = self.division.parts(steps, self._number, batch, self.rank, ahead=self.sent is not None)
        opened.steps = len(steps)
        opened.pending, opened.tail = (Intervals.of().union(*each) for each in zip(*parts, strict=True))
        if step:
            self.learner.begin([own.size for own, _ in parts])

    def backward(self, run: Callable[[], object], piece: Intervals, weight: float, loss: float) -> None:
        """Compute the gradients of a piece and hold them; if it is the last, their reduction begins meanwhile."""
        opened, group = self._need_open(), self.group
        self._claimer.listen(opened)
        last = piece.size == opened.pending.size and not opened.tail
        self._reduction = None
        if last and self.learner.overlaps and group is not None and group.size > 1:
            self._reduction = Reduction(group, self.membership, self.learner.buckets)
        self.learner.backward(run, piece.size, weight, None if self._reduction is None else self._fire)
        opened.hold(piece, weight, loss)
        if not opened.pending:
            self.learner.settle()

    def retry(self, piece: Intervals) -> None:
        """Compute anew what is held, and a piece that did not fit into memory: it has left something in the sums."""
        opened, group = self._need_open(), self.group
        lost = opened.pending.union(opened.held, piece)
        begun = self.learner.under_way or (self._reduction is not None and self._reduction.begun)
        self._forget_held()
        opened.pending, opened.disturbed = lost, True
        if begun and group is not None:
            # Part of a wrong sum is on its way: this generation can reduce nothing any more.
            self.membership.give_up(group, "out of memory in the middle of a reduction")

    def _fire(self, number: int) -> None:
        if self._reduction is not None:
            self._reduction.fire(number)
            if number == 0:
                self._faults.pass_by(Point.FIRST_BUCKET, self._number)

    def complete(self) -> bool:
        """Reduce the open round and commit it; False if there is more to compute first."""
        self.watch.mark(Phase.COMPUTE)
        while (opened := self.open) is not None:
            group, stays = self.group, False
            if group is None or self.membership.is_superseded(group):
                pass
            elif self.sent is not None and self.learner.takes_in:
                stays = self._take_in(self.sent)
            elif self.learner.step_due:
                stays = self._step(group)
            elif opened.pending or self._takes_more(opened, group):
                return False
            else:
                stays = self._send_ahead(opened, group) or self._attempt(opened, group)
            if not stays:
                self.regroup(group)
        return True

    def _takes_more(self, opened: Open, group: Group) -> bool:
        """Take a piece of the tail if there is one left."""
        self.watch.in_tail = bool(opened.tail)
        took = self._claimer.take(opened, group, self.progress.round + 1)
        self.watch.mark(Phase.COMPUTE)
        self.watch.in_tail = took
        return took

    def _step(self, group: Group) -> bool:
        """Take a step inside the round together with this worker's team; False if the generation has to be left."""
        reduction = Reduction(group.team or group, self.membership, self.learner.buckets)
        reduction.close(step_part(self.learner, self._number))
        self._faults.pass_by(Point.FIRST_BUCKET, self._number)
        ending, whole = reduction.finish()
        self.watch.mark(Phase.EXPOSED)
        if ending is not Ending.COMPLETE or whole is None:
            return False
        whole.check()
        self.learner.take_step(reduction, whole)
        self._steps += 1
        self.watch.mark(Phase.COMPUTE)
        return True

    def _send_ahead(self, opened: Open, group: Group) -> bool:
        """Leave a round on its way, if the strategy does so: the next one begins meanwhile."""
        if not self.learner.sends_ahead(opened):
            return False
        self.sent, self.open, self.learner.in_flight = self._send(opened, group), None, True
        return True

    def _attempt(self, opened: Open, group: Group) -> bool:
        """Reduce once; False if the generation has to be left."""
        attempt = self._send(opened, group)
        return attempt is not None and self._take_in(attempt)

    def _send(self, opened: Open, group: Group) -> Attempt | None:
        """Begin to reduce a round; None if the generation has to be left."""
        reduction, self._reduction = self._reduction, None
        step, learner = opened.kind is Kind.STEP, self.learner
        weight = learner.weigh(opened.weight) if step else opened.weight
        if reduction is None or reduction.group is not group:
            reduction = Reduction(group, self.membership, learner.buckets if step and learner.exchanges else None)
        self._faults.pass_by(Point.REDUCING, self._number)
        contributions = learner.contributions(opened) if step else []
        reduction.add(*contributions)
        if self.evaluation is not None and not self.evaluation.contribute(reduction, self.membership):
            return None
        ready = self.membership.ready_tag(group) if step else 0.0
        part = part_of(opened, self._number, weight, learner)
        reduction.close(replace(part, ready=ready, exposed=self.watch.exposed, plan=self.membership.plan))
        return Attempt(opened, group, reduction, contributions)

    def _take_in(self, attempt: Attempt) -> bool:
        """Wait for a round that was sent, and commit it; False if the generation has to be left."""
        ending, whole = attempt.reduction.finish()
        self.watch.mark(Phase.EXPOSED)
        if ending is not Ending.COMPLETE or whole is None:
            return False
        whole.check()
        self.sent = None
        self._faults.pass_by(Point.BEFORE_UPDATE, self.progress.round + 1)
        self._commit(attempt, whole)
        self._close_round(attempt, whole)
        return True

    def _commit(self, attempt: Attempt, whole: Whole) -> None:
        opened = attempt.opened
        progress = audited(self.progress, opened.interval, (whole.samples, whole.checksum))
        skipped = False
        if opened.kind is Kind.STEP:
            skipped = not self.learner.update(attempt.reduction, whole, attempt.contributions)
            at = (opened.epoch, opened.end, opened.size)
            self.progress = progress.after_step(at, whole.samples, skipped=skipped, steps=opened.steps)
        else:
            self.progress = progress.after_round(None if self.evaluation is None else self.evaluation.result())
        # What was begun meanwhile goes on, unless it was begun at a model that is skipped.
        self.open = None if skipped or self.open is opened else self.open
        self._faults.pass_by(Point.AFTER_UPDATE, self.progress.round)

    def _close_round(self, attempt: Attempt, whole: Whole) -> None:
        opened, group = attempt.opened, attempt.group
        version, share = self.division.version, self.division.shares[group.rank]
        self.division.commit(whole.version, whole.shares)
        self.membership.round = self.progress.round
        self._drop_previous()
        self.watch.mark(Phase.COMPUTE)
        lap, steps, self._steps = self.watch.lap(whole.least_exposed), self._steps, 0
        # Some steps of the next round may be in these times.
        alike = self.open is None or (self.open.as_planned and self.division.shares[group.rank] == share)
        self._on_commit(Committed(
            opened.kind, self.progress, group, version, share, opened.interval, opened.held, whole.samples,
            whole.loss / whole.weight if whole.weight else 0.0, lap, opened.disturbed, opened.as_planned and alike,
            max(1, steps, self.learner.timed_steps), max(0, opened.held.size - share * opened.steps),
        ))  # fmt: skip
        self.learner.check(self.progress.skipped_in_a_row)
        self.membership.check()
        self.prober.committed(opened.kind, group, self.learner.buckets, self.watch)
        if whole.ready:
            self._switch(group)
