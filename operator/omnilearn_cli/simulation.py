"""`omnilearn simulate`: run a scenario under every law, and show what would happen as tables and a picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from omnilearn_core.control.laws import LAWS
from omnilearn_core.control.words import duration
from omnilearn_core.simulate.cluster import Scenario
from omnilearn_core.simulate.run import LawController, Oracle, Trace, simulate

ORACLE = "Oracle"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The same scenario under every law and the oracle; ``law`` is the one in question."""

    law: str
    traces: Mapping[str, Trace]

    @property
    def chosen(self) -> Trace:
        """The run under the law in question."""
        return self.traces[self.law]


def compare(scenario: Scenario, law: str) -> Comparison:
    """Simulate the scenario under all laws."""
    traces = {name: simulate(scenario, LawController(each)) for name, each in LAWS.items()}
    return Comparison(law, {**traces, ORACLE: simulate(scenario, Oracle())})


def as_json(comparison: Comparison) -> dict[str, Any]:
    """Return the figures as plain data."""
    uniform = comparison.traces["Uniform"].seconds
    return {
        "law": comparison.law,
        "laws": {
            name: {
                "seconds": trace.seconds,
                "samplesPerSecond": trace.samples_per_second,
                "overUniform": uniform / trace.seconds,
                "waitingFraction": trace.waiting,
                "planChanges": trace.changes,
            }
            for name, trace in comparison.traces.items()
        },
        "shares": dict(comparison.chosen.windows[-1].shares),
        "decisions": [
            {"step": window.first_step, "why": window.why, "events": list(window.events)}
            for window in comparison.chosen.windows
        ],
    }


def show(comparison: Comparison, console: Console) -> None:
    """Print who is how fast, who gets what, and why."""
    console.print(Group(_laws(comparison), _workers(comparison), Text("What happened, and why:")))
    before: Mapping[str, int] = {}
    for window in comparison.chosen.windows:
        for event in window.events:
            console.print(Text(f"  step {window.first_step:>5}  * {event}"), soft_wrap=True)
        if window.shares != before:
            console.print(Text(f"  step {window.first_step:>5}  {window.why}"), soft_wrap=True)
        before = window.shares


def _laws(comparison: Comparison) -> Table:
    scenario = comparison.chosen.scenario
    table = Table(title=f"{scenario.steps} steps of {scenario.global_batch} samples", title_justify="left")
    table.add_column("law")
    for column in ("time", "samples/s", "over Uniform", "of Oracle", "waiting", "plan changes"):
        table.add_column(column, justify="right")
    uniform, oracle = comparison.traces["Uniform"], comparison.traces[ORACLE]
    for name, trace in comparison.traces.items():
        table.add_row(
            f"{name} ←" if name == comparison.law else name,
            duration(trace.seconds),
            f"{trace.samples_per_second:.0f}",
            f"{uniform.seconds / trace.seconds:.2f} ×",
            f"{oracle.seconds / trace.seconds:.0%}",
            f"{trace.waiting:.0%}",
            str(trace.changes),
            style="bold" if name == comparison.law else None,
        )
    return table


def _workers(comparison: Comparison) -> Table:
    last, equal = comparison.chosen.windows[-1], comparison.traces["Uniform"].windows[-1]
    table = Table(title=f"Shares at the end under {comparison.law}, and under Uniform", title_justify="left")
    table.add_column("worker")
    for column in ("share", "computes", "waits", "Uniform share", "computes", "waits"):
        table.add_column(column, justify="right")
    for worker, share in last.shares.items():
        row = [worker]
        for window, count in ((last, share), (equal, equal.shares[worker])):
            seconds = window.seconds[worker]
            row += [str(count), duration(seconds), f"{1.0 - seconds / window.step_seconds:.0%}"]
        table.add_row(*row)
    return table
