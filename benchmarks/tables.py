"""The comparison as tables in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Table

from .arms import ARMS
from .goals import Verdict


def show(results: dict[str, Any], verdicts: Sequence[Verdict]) -> None:
    """Print all tables."""
    console = Console(width=None if Console().is_terminal else 150)
    console.print(_steady(results["steady"]))
    console.print(_changes(results["changes"]))
    console.print(_schedules(results["schedules"]))
    console.print(_goals(verdicts))


def _steady(cells: Sequence[dict[str, Any]]) -> Table:
    noises = sorted({cell["noise"] for cell in cells})
    table = Table(title="Steady state: step time over the oracle's, mean (worst cell), and plan changes per 60 windows")
    table.add_column("law")
    for noise in noises:
        table.add_column(f"noise {noise:.0%}", justify="right")
    table.add_column("changes", justify="right")
    table.add_column("batch kept", justify="right")
    for arm in ARMS:
        row = [arm]
        for noise in noises:
            figures = [cell["arms"][arm]["steady"] for cell in cells if cell["noise"] == noise]
            row.append(f"{fmean(figures):.3f} ({max(figures):.3f})")
        changes = fmean(cell["arms"][arm]["changes"] for cell in cells)
        largest = max(cell["arms"][arm]["batch"] for cell in cells)
        kept = "yes" if largest == 1.0 else f"no: up to ×{largest:.2f}"
        table.add_row(*row, f"{changes:.0f}", kept)
    return table


def _changes(cells: Sequence[dict[str, Any]]) -> Table:
    windows = (0, 1, 2, 3, 5, 10)
    table = Table(
        title="After a change of level: step time over the oracle's, mean over cells with noise ≤ 3 %, by window"
    )
    table.add_column("law")
    for window in windows:
        table.add_column(f"{window + 1}", justify="right")
    calm = [cell for cell in cells if cell["noise"] <= 0.03]
    for arm in ARMS:
        table.add_row(arm, *[f"{fmean(cell['arms'][arm][window] for cell in calm):.3f}" for window in windows])
    return table


def _schedules(cells: Sequence[dict[str, Any]]) -> Table:
    table = Table(title="Schedule HL1-2-4-8-8-4-2-1, ten windows a phase, 20 % fixed cost: speed over uniform")
    table.add_column("law", no_wrap=True)
    shown = [cell for cell in cells if cell["fixed_share"] == 0.2 and not cell["fixed_scales"]]
    for cell in shown:
        table.add_column(f"{cell['workers']} workers\n{cell['noise']:.0%} noise", justify="right")
    for arm in [*ARMS, "One window late"]:
        table.add_row(arm, *[f"{cell['arms'][arm]:.3f}" for cell in shown])
    return table


def _goals(verdicts: Sequence[Verdict]) -> Table:
    table = Table(title="Goals of the default law (Affine)", show_lines=True)
    for column in ("goal", "wanted", "measured", "", "where"):
        table.add_column(column)
    for verdict in verdicts:
        table.add_row(
            verdict.goal, verdict.wanted, verdict.measured, "met" if verdict.met else "NOT MET", verdict.where
        )
    return table
