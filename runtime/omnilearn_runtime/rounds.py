"""The engine: opens rounds, hands out their samples, reduces them, commits, and regroups when members change.

Runs in the user's training thread only. `session` drives it; docs/protocol.md has the rules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from .claiming import Claimer
from .division import Division
from .element import Kind, Part, Whole
from .entry import enter, roll_call
from .evaluation import Evaluation
from .faults import Faults, Point
from .group import Group
from .ledger import Intervals
from .membership import Membership
from .progress import Progress
from .reduction import Reduction
from .rollcall import Record, Verdict
from .strategies import Learner
from .timing import Phase, Stopwatch
from .waiting import Ending
from .work import Committed, Open, audited


class Rounds:
    """One worker's part in the rounds of a job."""

    def __init__(
        self, learner: Learner, membership: Membership, faults: Faults, on_commit: Callable[[Committed], None]
    ) -> None:
        self.learner, self.membership, self._faults, self._on_commit = learner, membership, faults, on_commit
        self.progress = Progress()
        self.watch = Stopwatch()
        self.open: Open | None = None
        self.evaluation: Evaluation | None = None
        self.resume: Callable[[int], dict[str, Any] | None] = lambda _: None
        """Given the round that this worker holds, the state of a newer checkpoint, if there is one."""

        self.division = Division()
        self._claimer = Claimer(membership, self.division, faults)
        self._reduction: Reduction | None = None
        self._previous: Group | None = None

    # The state that others are healed with

    def record(self, *, fresh: bool, starting: bool) -> Record:
        """Return what this worker says in a roll call; when a job starts, after a look for a checkpoint."""
        resumed = self.resume(self.progress.round) if starting else None
        if resumed is not None:
            self.load(resumed)
        managed, opened = self.learner.managed, self.open
        values = managed.parameter_hash() if starting else ""
        record = Record(self.progress.round, managed.fingerprint(), values, fresh)
        if opened is None:
            return record
        record = replace(record, kind=int(opened.kind), held=opened.held)
        if not record.fits():
            self._forget_held()
            record = replace(record, held=Intervals.of())
        return record

    def to_tree(self) -> dict[str, Any]:
        """Return the state after the last committed round."""
        return {"progress": self.progress.to_tree(), "managed": self.learner.to_tree()}

    def newest_tree(self) -> dict[str, Any]:
        """Return the newest state that this worker can give, to be saved."""
        return self.to_tree()

    @property
    def seen(self) -> Progress:
        """How far the job is, as far as this worker knows."""
        return self.progress

    def load(self, tree: dict[str, Any]) -> None:
        """Become that state; what was held belongs to another."""
        self._forget_held()
        self.learner.load(tree["managed"])
        self.progress = Progress.from_tree(tree["progress"])

    # Membership

    @property
    def group(self) -> Group | None:
        """The generation that this worker is in."""
        return self.membership.current

    @property
    def rank(self) -> int:
        """The place of this worker in its generation."""
        group = self.group
        return 0 if group is None else group.rank

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
        before = self.progress.round
        entry = enter(self.membership, self._come_in, after)
        plan, names = entry.group.assignment.plan, entry.group.names
        self.division.enter(plan.version, plan.in_order(names), self.progress.round + 1, entry.verdict.held)
        if self.open is not None and self.progress.round != before:
            self.open = None
        elif self.open is not None:
            self._share_out(self.open)
        self.watch.mark(Phase.OTHER)

    def _come_in(self, group: Group) -> Verdict:
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
        self._reduction = None

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
        self.watch.mark(Phase.OTHER)
        self.learner.refresh()
        opened = self.open = Open(kind, epoch, interval, size)
        self._share_out(opened)
        opened.as_planned = opened.pending.size == self.division.shares[self.rank]
        self._faults.pass_by(Point.COMPUTING if kind is Kind.STEP else Point.EVALUATING, self.progress.round + 1)
        return opened

    def _share_out(self, opened: Open) -> None:
        """Give everybody its part of what nobody holds: all of it at first, the gaps after a loss."""
        batch = self.membership.global_batch if opened.kind is Kind.STEP else None
        opened.pending, opened.tail = self.division.part(opened.interval, self.progress.round + 1, batch, self.rank)

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

    def retry(self, piece: Intervals) -> None:
        """Compute anew what is held, and a piece that did not fit into memory: it has left something in the sums."""
        opened, group = self._need_open(), self.group
        lost = opened.pending.union(opened.held, piece)
        begun = self._reduction is not None and self._reduction.begun
        self._forget_held()
        opened.pending, opened.disturbed = lost, True
        if begun and group is not None:
            # Part of a wrong sum is on its way: this generation can reduce nothing any more.
            self.membership.give_up(group, "out of memory in the middle of a reduction")

    def _fire(self, number: int) -> None:
        if self._reduction is not None:
            self._reduction.fire(number)
            if number == 0:
                self._faults.pass_by(Point.FIRST_BUCKET, self.progress.round + 1)

    def complete(self) -> bool:
        """Reduce the open round and commit it; False if there is more to compute first."""
        self.watch.mark(Phase.COMPUTE)
        while (opened := self.open) is not None:
            group = self.group
            if group is None or self.membership.is_superseded(group):
                self.regroup(group)
            elif opened.pending or self._takes_more(opened, group):
                return False
            elif not self._attempt(opened, group):
                self.regroup(group)
        return True

    def _takes_more(self, opened: Open, group: Group) -> bool:
        """Take a piece of the tail if there is one left."""
        self.watch.in_tail = bool(opened.tail)
        took = self._claimer.take(opened, group, self.progress.round + 1)
        self.watch.mark(Phase.COMPUTE)
        self.watch.in_tail = took
        return took

    def _attempt(self, opened: Open, group: Group) -> bool:
        """Reduce once; False if the generation has to be left."""
        reduction, self._reduction = self._reduction, None
        step = opened.kind is Kind.STEP
        weight = self.learner.weigh(opened.weight) if step else opened.weight
        if reduction is None or reduction.group is not group:
            reduction = Reduction(group, self.membership, self.learner.buckets if step else None)
        self._faults.pass_by(Point.REDUCING, self.progress.round + 1)
        contributions = self.learner.contributions(opened) if step else []
        for each in contributions:
            reduction.add(each)
        if self.evaluation is not None and not self.evaluation.contribute(reduction, self.membership):
            return False
        ending, whole = reduction.finish(self._part(opened, group, weight))
        self.watch.mark(Phase.EXPOSED)
        if ending is not Ending.COMPLETE or whole is None:
            return False
        whole.check()
        self._faults.pass_by(Point.BEFORE_UPDATE, self.progress.round + 1)
        self._commit(opened, reduction, whole, contributions)
        self._close_round(opened, group, whole)
        return True

    def _part(self, opened: Open, group: Group, weight: float) -> Part:
        step = opened.kind is Kind.STEP
        return replace(
            opened.part(self.progress.round + 1, weight),
            ready=self.membership.ready_tag(group) if step else 0.0,
            exposed=self.watch.exposed,
            plan=self.membership.plan,
            touched=self.learner.buckets.touched() if step else torch.zeros(0, dtype=torch.float64),
        )

    def _commit(self, opened: Open, reduction: Reduction, whole: Whole, contributions: list[Tensor]) -> None:
        progress = audited(self.progress, opened.interval, (whole.samples, whole.checksum))
        if opened.kind is Kind.STEP:
            skipped = not self.learner.update(reduction, whole, contributions)
            at = (opened.epoch, opened.end, opened.size)
            self.progress = progress.after_step(at, whole.samples, skipped=skipped)
        else:
            self.progress = progress.after_round(None if self.evaluation is None else self.evaluation.result())
        self._faults.pass_by(Point.AFTER_UPDATE, self.progress.round)

    def _close_round(self, opened: Open, group: Group, whole: Whole) -> None:
        version, share = self.division.version, self.division.shares[group.rank]
        self.division.commit(whole.version, whole.shares)
        self.open = None
        self.membership.round = self.progress.round
        self._drop_previous()
        self.watch.mark(Phase.COMPUTE)
        lap = self.watch.lap(whole.least_exposed)
        loss = whole.loss / whole.weight if whole.weight else 0.0
        self._on_commit(
            Committed(
                opened.kind, self.progress, group, version, share, opened.interval, opened.held,
                whole.samples, loss, lap, opened.disturbed, opened.as_planned,
            )
        )  # fmt: skip
        self.learner.check(self.progress.skipped_in_a_row)
        self.membership.check()
        if whole.ready:
            self._switch(group)

    def _need_open(self) -> Open:
        if self.open is None:
            raise RuntimeError("there is no batch to step: call session.step once for each batch of session.batches")
        return self.open

    def _forget_held(self) -> None:
        self.learner.forget()
        self._reduction = None
        if self.open is not None:
            self.open.forget()
        if self.evaluation is not None:
            self.evaluation.clear()
