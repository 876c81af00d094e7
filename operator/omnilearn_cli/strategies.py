"""`omnilearn simulate --model-mb`: the strategies side by side, for a manifest's workers and a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rich.table import Table

from omnilearn_core.api.job import OmniLearnJob
from omnilearn_core.control.words import duration
from omnilearn_core.simulate.cluster import Scenario
from omnilearn_core.simulate.strategies import Estimate, Network, Question, estimates


class Compared(NamedTuple):
    """What each strategy would do; ``chosen`` is the manifest's."""

    chosen: str
    estimates: Sequence[Estimate] = ()


def compared(
    job: OmniLearnJob, scenario: Scenario, model_mb: float | None, megabits: float, latency_ms: float
) -> Compared:
    """Return what each strategy would do with the first workers, if the size of the model is given."""
    chosen = str(job.spec.strategy.type)
    if model_mb is None:
        return Compared(chosen)
    network = Network(megabits * 1e6 / 8, latency_ms / 1000)
    local = min(job.spec.strategy.local.batch, scenario.global_batch)
    interval = job.spec.strategy.in_groups.interval
    question = Question(scenario.global_batch, scenario.workers, model_mb * 1e6, network, local, interval)
    return Compared(chosen, estimates(question))


def table_of(found: Compared) -> Table:
    """Return the strategies as a table."""
    table = Table(
        title="The same job under each strategy (times only, not what an update brings)", title_justify="left"
    )
    table.add_column("strategy")
    for column in ("update every", "samples/s", "idle", "staleness mean", "most"):
        table.add_column(column, justify="right")
    for each in found.estimates:
        table.add_row(
            f"{each.strategy} ←" if each.strategy == found.chosen else each.strategy,
            duration(each.update_seconds),
            f"{each.samples_per_second:.0f}",
            f"{each.idle:.0%}",
            f"{each.mean_staleness:.1f}",
            str(each.max_staleness),
            style="bold" if each.strategy == found.chosen else None,
        )
    return table


def as_json(found: Compared) -> list[dict[str, Any]]:
    """Return the figures as plain data."""
    return [each._asdict() for each in found.estimates]
