"""`omnilearn simulate --model-mb`: the strategies side by side, for a manifest's workers and a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from omnilearn_core.api.job import OmniLearnJob
from omnilearn_core.control.words import duration
from omnilearn_core.simulate.cluster import Scenario
from omnilearn_core.simulate.strategies import Estimate, Network, Question, estimates


def compared(
    job: OmniLearnJob, scenario: Scenario, model_mb: float, megabits: float, latency_ms: float
) -> list[Estimate]:
    """Return what each strategy would do with the workers as they are at the beginning."""
    network = Network(megabits * 1e6 / 8, latency_ms / 1000)
    local = min(job.spec.strategy.local.batch, scenario.global_batch)
    return estimates(Question(scenario.global_batch, scenario.workers, model_mb * 1e6, network, local))


def table_of(found: Sequence[Estimate], chosen: str) -> Table:
    """Return the strategies as a table."""
    table = Table(
        title="The same job under each strategy (times only, not what an update brings)", title_justify="left"
    )
    table.add_column("strategy")
    for column in ("update every", "samples/s", "idle", "staleness mean", "most"):
        table.add_column(column, justify="right")
    for each in found:
        table.add_row(
            f"{each.strategy} ←" if each.strategy == chosen else each.strategy,
            duration(each.update_seconds),
            f"{each.samples_per_second:.0f}",
            f"{each.idle:.0%}",
            f"{each.mean_staleness:.1f}",
            str(each.max_staleness),
            style="bold" if each.strategy == chosen else None,
        )
    return table


def as_json(found: Sequence[Estimate]) -> list[dict[str, Any]]:
    """Return the figures as plain data."""
    return [each._asdict() for each in found]
