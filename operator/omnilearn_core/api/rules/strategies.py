"""Rules about strategies and what fits them."""

from __future__ import annotations

from omnilearn_core.api.job import JobSpec, OmniLearnJob
from omnilearn_core.api.strategy import LOCAL_BATCH, Hierarchical, LocalSteps, Staleness, Strategy, StrategyType

from .numbers import MOST as _MOST
from .rule import Rule, Values

# CEL, written for the part that a rule is about.
_HAS_SHARES = f"has(self.strategy.localSGD) && self.strategy.localSGD.steps == '{LocalSteps.SHARES}'"
# Its shares are whole numbers of local steps.
_IS_LOCAL = f"self.strategy.type == '{StrategyType.LOCAL_SGD}' && !({_HAS_SHARES})"
_TAILED = (StrategyType.SYNCHRONOUS, StrategyType.AUTO)
_NO_SERVER_GROUP = "!has(self.strategy.asynchronous) || !has(self.strategy.asynchronous.serverGroup)"
_SERVER_GROUP = "self.strategy.asynchronous.serverGroup"
_LOCAL_BATCH = f"(has(self.strategy.localSGD) ? self.strategy.localSGD.batch : {LOCAL_BATCH})"


def _foreign_options(strategy: Strategy) -> Values | None:
    return (str(strategy.type),) if strategy.local_sgd and strategy.type is not StrategyType.LOCAL_SGD else None


def _foreign_group_options(strategy: Strategy) -> Values | None:
    return (str(strategy.type),) if strategy.hierarchical and strategy.type is not StrategyType.HIERARCHICAL else None


def _interval_beyond_most(options: Hierarchical) -> Values | None:
    return (options.interval, options.max_interval) if options.interval > options.max_interval else None


def _wait_beyond_most(options: Hierarchical) -> Values | None:
    return (options.wait, options.max_interval) if options.wait > options.max_interval else None


def _foreign_asynchronous(strategy: Strategy) -> Values | None:
    foreign = strategy.asynchronous and strategy.type is not StrategyType.ASYNCHRONOUS
    return (str(strategy.type),) if foreign else None


def _unused_bound(strategy: Strategy) -> Values | None:
    options = strategy.asynchronous
    unused = options is not None and options.bound is not None and not options.staleness.has_bound
    return (str(options.staleness),) if options is not None and unused else None


def _no_such_server(spec: JobSpec) -> Values | None:
    name = spec.strategy.server_group
    found = any(group.name == name and group.replicas == 1 for group in spec.workers)
    return None if name is None or found else (name,)


def _nothing_but_a_server(spec: JobSpec) -> Values | None:
    name = spec.strategy.server_group
    alone = not any(group.name != name and group.replicas for group in spec.workers)
    return (name,) if name is not None and alone else None


def _no_whole_steps(spec: JobSpec) -> Values | None:
    unit = spec.strategy.unit
    return (spec.batch.global_, unit) if spec.batch.global_ % unit else None


def _too_few_steps(spec: JobSpec) -> Values | None:
    unit = spec.strategy.unit
    if unit == 1 or spec.batch.min_per_worker == 0 or unit * spec.most <= spec.batch.global_:
        return None
    return spec.batch.global_, spec.most, unit, unit * spec.most


def _most_below_a_step(spec: JobSpec) -> Values | None:
    most, unit = spec.batch.max_per_worker, spec.strategy.unit
    return (most, unit) if most is not None and unit > 1 and most % unit else None


def _tail_without_synchrony(spec: JobSpec) -> Values | None:
    has_tail = spec.strategy.type in _TAILED
    return None if has_tail or not spec.batch.tail_percent else (str(spec.strategy.type),)


def _options_changed(old: OmniLearnJob, new: OmniLearnJob) -> Values | None:
    before, after = old.spec.strategy, new.spec.strategy
    return () if before.type == after.type and before.local_sgd != after.local_sgd else None


def _group_options_changed(old: OmniLearnJob, new: OmniLearnJob) -> Values | None:
    before, after = old.spec.strategy, new.spec.strategy
    return () if before.type == after.type and before.hierarchical != after.hierarchical else None


def _unchanged(options: str) -> str:
    """Return the CEL for: these options are as they were, if the strategy is."""
    return (
        "self.strategy.type != oldSelf.strategy.type ||"
        f" (has(self.strategy.{options}) == has(oldSelf.strategy.{options}) &&"
        f" (!has(self.strategy.{options}) || self.strategy.{options} == oldSelf.strategy.{options}))"
    )


def _asynchronous_changed(old: OmniLearnJob, new: OmniLearnJob) -> Values | None:
    before, after = old.spec.strategy, new.spec.strategy
    return () if before.type == after.type and before.asynchronous != after.asynchronous else None


RULES: tuple[Rule, ...] = (
    Rule(
        at="spec.strategy",
        field="localSGD",
        sentence="localSGD has options, but the type of the strategy is %s: set type to LocalSGD, or remove them",
        cel=f"!has(self.localSGD) || self.type == '{StrategyType.LOCAL_SGD}'",
        values=("self.type",),
        broken=_foreign_options,
    ),
    Rule(
        at="spec.strategy",
        field="asynchronous",
        sentence="asynchronous has options, but the type of the strategy is %s: set type to Asynchronous, or remove"
        " them",
        cel=f"!has(self.asynchronous) || self.type == '{StrategyType.ASYNCHRONOUS}'",
        values=("self.type",),
        broken=_foreign_asynchronous,
    ),
    Rule(
        at="spec.strategy",
        field="asynchronous.bound",
        sentence="asynchronous.bound is set, but %s has no bound: remove it, or set staleness to "
        + ", ".join(kind for kind in Staleness if kind.has_bound),
        cel="!has(self.asynchronous) || !has(self.asynchronous.bound) || self.asynchronous.staleness in ["
        + ", ".join(f"'{kind}'" for kind in Staleness if kind.has_bound)
        + "]",
        values=("self.asynchronous.staleness",),
        broken=_unused_bound,
    ),
    Rule(
        at="spec",
        field="strategy.asynchronous.serverGroup",
        sentence="strategy.asynchronous.serverGroup is %s, but there is no group of that name with replicas 1: name a"
        " group of workers, and let it have one worker",
        cel=f"{_NO_SERVER_GROUP} || self.workers.exists(g, g.name == {_SERVER_GROUP} && g.replicas == 1)",
        values=(_SERVER_GROUP,),
        broken=_no_such_server,
    ),
    Rule(
        at="spec",
        field="strategy.asynchronous.serverGroup",
        sentence="strategy.asynchronous.serverGroup is %s, but no other group has workers, and a server does not"
        " compute: add a group that does, or remove serverGroup",
        cel=f"{_NO_SERVER_GROUP} || self.workers.exists(g, g.name != {_SERVER_GROUP} && g.replicas > 0)",
        values=(_SERVER_GROUP,),
        broken=_nothing_but_a_server,
    ),
    Rule(
        at="spec",
        field="batch.global",
        sentence="batch.global is %d, which is not a whole number of local steps of %d samples"
        " (strategy.localSGD.batch): change one of them",
        cel=f"!({_IS_LOCAL}) || self.batch.global % {_LOCAL_BATCH} == 0",
        values=("self.batch.global", _LOCAL_BATCH),
        broken=_no_whole_steps,
    ),
    Rule(
        at="spec",
        field="batch.global",
        sentence="batch.global is %d, but the most workers that the job can have (%d) take at least one local step of"
        " %d samples each, %d together: raise global, lower strategy.localSGD.batch, use fewer workers, or let"
        " minPerWorker be 0",
        cel=f"!({_IS_LOCAL}) || self.batch.minPerWorker == 0 || {_LOCAL_BATCH} * {_MOST} <= self.batch.global",
        values=("self.batch.global", _MOST, _LOCAL_BATCH, f"{_LOCAL_BATCH} * {_MOST}"),
        broken=_too_few_steps,
    ),
    Rule(
        at="spec",
        field="batch.maxPerWorker",
        sentence="batch.maxPerWorker is %d, which is not a whole number of local steps of %d samples: change one of"
        " them",
        cel=f"!({_IS_LOCAL}) || !has(self.batch.maxPerWorker) || self.batch.maxPerWorker % {_LOCAL_BATCH} == 0",
        values=("self.batch.maxPerWorker", _LOCAL_BATCH),
        broken=_most_below_a_step,
    ),
    Rule(
        at="spec",
        field="batch.tailPercent",
        sentence="batch.tailPercent is set, but only Synchronous has a tail, not %s: remove it",
        cel="self.strategy.type in ["
        + ", ".join(f"'{kind}'" for kind in _TAILED)
        + "] || !has(self.batch.tailPercent) || self.batch.tailPercent == 0",
        values=("self.strategy.type",),
        broken=_tail_without_synchrony,
    ),
    Rule(
        at="spec",
        field="strategy.localSGD",
        sentence="strategy.localSGD cannot change in a job that exists: create another job",
        cel=_unchanged("localSGD"),
        values=(),
        broken=_options_changed,
        on_change=True,
    ),
    Rule(
        at="spec.strategy",
        field="hierarchical",
        sentence="hierarchical has options, but the type of the strategy is %s: set type to Hierarchical, or remove"
        " them",
        cel=f"!has(self.hierarchical) || self.type == '{StrategyType.HIERARCHICAL}'",
        values=("self.type",),
        broken=_foreign_group_options,
    ),
    Rule(
        at="spec.strategy.hierarchical",
        field="interval",
        sentence="interval is %d, but the most steps between two merges (maxInterval) are %d: change one of them",
        cel="self.interval <= self.maxInterval",
        values=("self.interval", "self.maxInterval"),
        broken=_interval_beyond_most,
    ),
    Rule(
        at="spec.strategy.hierarchical",
        field="wait",
        sentence="wait is %d, but the most steps between two merges (maxInterval) are %d: a merge must have been taken"
        " in before the next one begins; change one of them",
        cel="self.wait <= self.maxInterval",
        values=("self.wait", "self.maxInterval"),
        broken=_wait_beyond_most,
    ),
    Rule(
        at="spec",
        field="strategy.hierarchical",
        sentence="strategy.hierarchical cannot change in a job that exists: create another job",
        cel=_unchanged("hierarchical"),
        values=(),
        broken=_group_options_changed,
        on_change=True,
    ),
    Rule(
        at="spec",
        field="strategy.asynchronous",
        sentence="strategy.asynchronous cannot change in a job that exists: create another job",
        cel=_unchanged("asynchronous"),
        values=(),
        broken=_asynchronous_changed,
        on_change=True,
    ),
)
