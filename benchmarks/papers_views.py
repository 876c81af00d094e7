"""What `benchmarks.papers` has measured, as tables and as pictures."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.table import Table

from .papers_claims import Claim
from .papers_figures import Goal, at, best_of, mean_and_spread

Rows = list[dict[str, Any]]
"""One for each situation and way: case, way, subject, figures by seed, and curves."""

_PERCENT = ("discarded",)
_SCORES = ("after these samples", "at the end")
_WHOLE = ("samples", "updates", "largest delay", "ms per step")
_PER_ROW = 3


def goal_of(claim: Claim, subject: str) -> Goal:
    """Return what counts as reached with a subject."""
    text = subject == "text"
    return Goal(claim.targets[1 if text else 0], higher_is_better=not text)


def table_of(claim: Claim, rows: Rows) -> Table:
    """Return all figures, mean and standard deviation over seeds, with the best way of every situation marked."""
    table = Table(title=claim.title)
    for column in ("situation", "way", *claim.columns):
        table.add_column(column, justify="left" if column in ("situation", "way") else "right")
    last = None
    for row in rows:
        if last not in (None, row["case"]):
            table.add_section()
        mark = " *" if row["way"] == best_way(claim, rows, row["case"]) else ""
        cells = [said(column, row["subject"], row["figures"][column]) for column in claim.columns]
        table.add_row(row["case"] if row["case"] != last else "", row["way"] + mark, *cells)
        last = row["case"]
    return table


def best_way(claim: Claim, rows: Rows, case: str) -> str | None:
    """Return the way that was best in a situation: by the claim's figure, or by the end if nobody has come so far."""
    mine = [row for row in rows if row["case"] == case]
    for figure in (claim.best, "at the end"):
        means = {row["way"]: mean_and_spread(row["figures"][figure])[0] for row in mine}
        higher = figure == "at the end" and goal_of(claim, mine[0]["subject"]).higher_is_better
        if (found := best_of(means, higher=higher)) is not None:
            return found
    return None


def said(column: str, subject: str, values: list[float]) -> str:
    """Return a figure as people read it."""
    mean, spread = mean_and_spread(values)
    if not math.isfinite(mean):
        reached = [value for value in values if math.isfinite(value)]
        return f"{len(reached)} of {len(values)} runs" if reached else "–"
    if column in _PERCENT or (column in _SCORES and subject != "text"):
        return f"{100 * mean:.1f} ± {100 * spread:.1f} %"
    digits = 0 if column in _WHOLE else 2
    return f"{mean:.{digits}f} ± {spread:.{digits}f}"


_COLORS, _STYLES = 10, ("-", "--")


def draw(claim: Claim, rows: Rows, path: Path) -> None:
    """Draw how good the models were over time, one panel for each situation; the mean of all seeds."""
    import matplotlib as mpl  # noqa: PLC0415 - takes seconds to import

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    cases = list(dict.fromkeys(row["case"] for row in rows))
    across = 2 if len(cases) == 4 else min(len(cases), _PER_ROW)
    down = -(-len(cases) // across)
    figure, grid = plt.subplots(down, across, figsize=(5.5 * across, 4.2 * down), squeeze=False, layout="constrained")
    for axes, case in zip(grid.flat, cases, strict=False):
        mine = [row for row in rows if row["case"] == case]
        for number, row in enumerate(mine):
            style = _STYLES[number // _COLORS % len(_STYLES)]
            axes.plot(*zip(*mean_curve(row), strict=True), label=row["way"], linestyle=style)
        # Who has more time than the others, because it has to find out first, is shown for twice as long.
        lengths = [row["seconds"] for row in mine]
        axes.set_xlim(0.0, min(max(lengths), 2 * min(lengths)))
        goal = goal_of(claim, mine[0]["subject"])
        axes.axhline(goal.target, color="black", linestyle=":", linewidth=1)
        axes.set(title=case, xlabel="seconds", ylabel="accuracy" if goal.higher_is_better else "bits per character")
        axes.set_ylim(*((0.5, None) if goal.higher_is_better else (None, 4.5)))
        axes.legend(fontsize=7, loc="lower right" if goal.higher_is_better else "upper right")
    for axes in list(grid.flat)[len(cases) :]:
        axes.axis("off")
    figure.suptitle(claim.title)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=70)
    plt.close(figure)
    print(f"picture: {path}")


def mean_curve(row: dict[str, Any]) -> Iterable[tuple[float, float]]:
    """Return the mean of a row's curves at tenths of their time."""
    moments = [row["seconds"] * place / 40 for place in range(41)]
    return [(moment, fmean(at(curve, moment) for curve in row["curves"])) for moment in moments]
