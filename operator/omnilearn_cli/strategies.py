"""`omnilearn simulate --model-mb`: the strategies side by side, for a manifest's workers and a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from rich.table import Table

from omnilearn_core.api.job import OmniLearnJob
from omnilearn_core.api.strategy import Asynchronous, GradientType, LocalRule, LocalSteps, StrategyType
from omnilearn_core.control.words import duration
from omnilearn_core.simulate.choice import Chosen, choose
from omnilearn_core.simulate.cluster import Scenario
from omnilearn_core.simulate.server import Serving
from omnilearn_core.simulate.strategies import Estimate, Network, Question, estimates


class Compared(NamedTuple):
    """What each strategy would do; ``chosen`` is the manifest's, or Auto's."""

    chosen: str
    estimates: Sequence[Estimate] = ()
    auto: Chosen | None = None
    """What Auto would choose."""


def compared(
    job: OmniLearnJob, scenario: Scenario, model_mb: float | None, megabits: float, latency_ms: float
) -> Compared:
    """Return what each strategy would do with the first workers, if the size of the model is given."""
    strategy = job.spec.strategy
    if model_mb is None:
        return Compared(str(strategy.type))
    question = Question(
        scenario.global_batch,
        scenario.workers,
        model_bytes=model_mb * 1e6,
        network=Network(megabits * 1e6 / 8, latency_ms / 1000),
        local_batch=None if strategy.local.by_shares else min(strategy.local.batch, scenario.global_batch),
        local_even=strategy.local.steps is LocalSteps.FIXED,
        local_interval=strategy.local.interval,
        # Two moments beside the model.
        local_merged=3 if strategy.local.rule is LocalRule.FEDLALR else 1,
        local_anchors=strategy.local.rule is LocalRule.BVR,
        interval=strategy.in_groups.interval,
        serving=_serving(strategy.asynchronous or Asynchronous()),
    )
    auto = choose(question)
    if strategy.type is not StrategyType.AUTO:
        return Compared(str(strategy.type), estimates(question), auto)
    # Shown as it would be trained.
    question = replace(question, local_batch=None, local_interval=auto.interval, interval=auto.interval)
    return Compared(auto.strategy, estimates(question), auto)


def _serving(options: Asynchronous) -> Serving:
    part = 1.0 if options.gradients is GradientType.FULL else 0.5
    return Serving(str(options.staleness), options.bound, part, options.server_group)


def what_auto_would_do(found: Compared) -> str:
    """Say which strategy Auto would choose, and why."""
    return "" if found.auto is None else f"Auto would choose {found.auto.strategy}: {found.auto.why}."


def table_of(found: Compared) -> Table:
    """Return the strategies as a table."""
    table = Table(
        title="The same job under each strategy (times only, not what an update brings)", title_justify="left"
    )
    table.add_column("strategy")
    for column in ("update every", "samples/s", "idle", "staleness mean", "most", "discarded"):
        table.add_column(column, justify="right")
    for each in found.estimates:
        table.add_row(
            f"{each.strategy} ←" if each.strategy == found.chosen else each.strategy,
            duration(each.update_seconds),
            f"{each.samples_per_second:.0f}",
            f"{each.idle:.0%}",
            f"{each.mean_staleness:.1f}",
            str(each.max_staleness),
            f"{each.discarded:.0%}",
            style="bold" if each.strategy == found.chosen else None,
        )
    return table


def as_json(found: Compared) -> dict[str, Any]:
    """Return the figures as plain data."""
    auto = None if found.auto is None else found.auto._asdict()
    return {"strategies": [each._asdict() for each in found.estimates], "auto": auto}
