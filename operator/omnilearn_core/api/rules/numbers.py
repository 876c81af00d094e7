"""Rules about numbers of workers and samples."""

from __future__ import annotations

from omnilearn_core.api.job import Batch, JobSpec, WorkerGroup

from .rule import Rule, Values

# CEL, written for the part that a rule is about. Every list is bounded, or its cost would be refused.
_WANTED = "self.workers.map(g, g.replicas).sum()"
_NEEDED = "self.workers.map(g, g.minReplicas).sum()"
_FEWEST = f"([self.membership.minWorkers, {_NEEDED}].max())"
MOST = f"(has(self.membership.maxWorkers) ? [self.membership.maxWorkers, {_WANTED}].min() : {_WANTED})"


def _no_worker(spec: JobSpec) -> Values | None:
    return None if any(group.replicas for group in spec.workers) else ()


def _min_above_replicas(group: WorkerGroup) -> Values | None:
    return (group.min_replicas, group.replicas) if group.min_replicas > group.replicas else None


def _min_above_wanted(spec: JobSpec) -> Values | None:
    least = spec.membership.min_workers
    return (least, spec.wanted) if 0 < spec.wanted < least else None


def _min_above_max(spec: JobSpec) -> Values | None:
    least, most = spec.membership.min_workers, spec.membership.max_workers
    return (least, most) if most is not None and least > most else None


def _needed_above_max(spec: JobSpec) -> Values | None:
    needed, most = sum(group.min_replicas for group in spec.workers), spec.membership.max_workers
    return (most, needed) if most is not None and needed > most else None


def _max_above_wanted(spec: JobSpec) -> Values | None:
    most = spec.membership.max_workers
    return (most, spec.wanted) if most is not None and most > spec.wanted else None


def _min_share_above_max(batch: Batch) -> Values | None:
    most = batch.max_per_worker
    return (batch.min_per_worker, most) if most is not None and batch.min_per_worker > most else None


def _batch_too_large(spec: JobSpec) -> Values | None:
    most = spec.batch.max_per_worker
    if most is None or most * spec.fewest >= spec.batch.global_:
        return None
    return spec.batch.global_, spec.fewest, most, most * spec.fewest


def _batch_too_small(spec: JobSpec) -> Values | None:
    needed = spec.batch.min_per_worker * spec.most
    return (spec.batch.global_, spec.most, spec.batch.min_per_worker, needed) if needed > spec.batch.global_ else None


def _suspended_without_checkpoint(spec: JobSpec) -> Values | None:
    return () if spec.suspend and spec.checkpoint is None else None


RULES: tuple[Rule, ...] = (
    Rule(
        at="spec",
        field="workers",
        sentence="workers has no worker: set replicas of a group to at least 1",
        cel="self.workers.exists(g, g.replicas > 0)",
        values=(),
        broken=_no_worker,
    ),
    Rule(
        at="spec.workers[]",
        field="minReplicas",
        sentence="minReplicas is %d, above replicas %d: lower minReplicas or raise replicas",
        cel="self.minReplicas <= self.replicas",
        values=("self.minReplicas", "self.replicas"),
        broken=_min_above_replicas,
    ),
    Rule(
        at="spec",
        field="membership.minWorkers",
        sentence="membership.minWorkers is %d, but all groups together have %d replicas:"
        " lower minWorkers or raise replicas",
        # Without any worker, the rule above has said what to change.
        cel=f"{_WANTED} == 0 || self.membership.minWorkers <= {_WANTED}",
        values=("self.membership.minWorkers", _WANTED),
        broken=_min_above_wanted,
    ),
    Rule(
        at="spec",
        field="membership.minWorkers",
        sentence="membership.minWorkers is %d, above maxWorkers %d: lower minWorkers or raise maxWorkers",
        cel="!has(self.membership.maxWorkers) || self.membership.minWorkers <= self.membership.maxWorkers",
        values=("self.membership.minWorkers", "self.membership.maxWorkers"),
        broken=_min_above_max,
    ),
    Rule(
        at="spec",
        field="membership.maxWorkers",
        sentence="membership.maxWorkers is %d, but the groups' minReplicas need %d workers:"
        " raise maxWorkers or lower minReplicas",
        cel=f"!has(self.membership.maxWorkers) || {_NEEDED} <= self.membership.maxWorkers",
        values=("self.membership.maxWorkers", _NEEDED),
        broken=_needed_above_max,
    ),
    Rule(
        at="spec",
        field="membership.maxWorkers",
        sentence="membership.maxWorkers is %d, but all groups together have %d replicas:"
        " lower maxWorkers or raise replicas",
        cel=f"!has(self.membership.maxWorkers) || self.membership.maxWorkers <= {_WANTED}",
        values=("self.membership.maxWorkers", _WANTED),
        broken=_max_above_wanted,
    ),
    Rule(
        at="spec.batch",
        field="minPerWorker",
        sentence="minPerWorker is %d, above maxPerWorker %d: lower minPerWorker or raise maxPerWorker",
        cel="!has(self.maxPerWorker) || self.minPerWorker <= self.maxPerWorker",
        values=("self.minPerWorker", "self.maxPerWorker"),
        broken=_min_share_above_max,
    ),
    Rule(
        at="spec",
        field="batch.global",
        sentence="batch.global is %d, but the fewest workers that the job runs with (%d) can hold only %d each,"
        " %d together: raise maxPerWorker or minWorkers, or lower global",
        cel=f"!has(self.batch.maxPerWorker) || self.batch.maxPerWorker * {_FEWEST} >= self.batch.global",
        values=(
            "self.batch.global",
            _FEWEST,
            "self.batch.maxPerWorker",
            f"self.batch.maxPerWorker * {_FEWEST}",
        ),
        broken=_batch_too_large,
    ),
    Rule(
        at="spec",
        field="batch.global",
        sentence="batch.global is %d, but the most workers that the job can have (%d) get at least %d each,"
        " %d together: raise global, lower minPerWorker or use fewer workers",
        cel=f"self.batch.minPerWorker * {MOST} <= self.batch.global",
        values=("self.batch.global", MOST, "self.batch.minPerWorker", f"self.batch.minPerWorker * {MOST}"),
        broken=_batch_too_small,
    ),
    Rule(
        at="spec",
        field="suspend",
        sentence="suspend is true, but there is no checkpoint to go on from: add checkpoint.claimName, or"
        " delete the job",
        cel="!self.suspend || has(self.checkpoint)",
        values=(),
        broken=_suspended_without_checkpoint,
    ),
)
