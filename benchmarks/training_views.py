"""What `training` has measured, as tables and as a picture."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from rich.console import Console
from rich.table import Table

GOALS = {"levels": 0.95, "schedule": 1.5, "alike": 0.98}
_COLOURS = {"Affine": "tab:blue", "no tail": "tab:cyan", "Uniform": "tab:gray", "DDP": "tab:red"}


def show(results: dict[str, Any]) -> None:
    """Print the tables, with what was wanted beside what was measured."""
    console = Console(width=None if Console().is_terminal else 130)
    if "levels" in results:
        console.print(_levels(results))
    goals = Table(title="Goals")
    for column in ("goal", "wanted", "measured", ""):
        goals.add_column(column)
    for name, wanted, measured in _measured(results):
        goals.add_row(name, f"≥ {wanted}", measured[1], "met" if measured[0] >= wanted else "NOT MET")
    console.print(goals)


def _measured(results: dict[str, Any]) -> list[tuple[str, float, tuple[float, str]]]:
    rows = []
    for each in results.get("levels", []):
        ratio = each["ratios"]["Affine"]
        rows.append(
            (f"HL{each['level']}: throughput / Σ of the workers' own", GOALS["levels"], (ratio, f"{ratio:.3f}"))
        )
    if "schedule" in results:
        gain = results["schedule"]["gain"]
        words = f"{gain:.2f} × (without a tail {results['schedule']['gain without a tail']:.2f} ×)"
        rows.append(("schedule HL1-2-4-8-8-4-2-1 over equal shares", GOALS["schedule"], (gain, words)))
    if "alike" in results:
        found = results["alike"]
        words = f"{found['mean']:.3f} ± {found['margin']:.3f} (median {found['median']:.3f})"
        rows.append(("alike workers: speed over DDP's", GOALS["alike"], (found["mean"], words)))
    return rows


def _levels(results: dict[str, Any]) -> Table:
    table = Table(title=f"Throughput over the sum of the workers' own speeds; global batch {results['batch']}")
    for column in (
        "level",
        "CPUs",
        "Affine",
        "no tail",
        "equal shares",
        "DDP",
        "computing: Affine",
        "no tail",
        "all rounds",
    ):
        table.add_column(column)
    for each in results["levels"]:
        ratios, rounds = each["ratios"], each["rounds"]
        table.add_row(
            f"HL{each['level']}",
            " ".join(f"{cpu:.2f}" for cpu in each["cpus"]),
            *(f"{ratios[name]:.3f}" for name in ("Affine", "no tail", "Uniform", "DDP")),
            *(f"{sum(one[f'{name} computes'] for one in rounds) / len(rounds):.0%}" for name in ("Affine", "no tail")),
            " ".join(f"{one['Affine']:.3f}" for one in rounds),
        )
    return table


def draw(results: dict[str, Any], path: Path) -> None:
    """Draw the levels and the schedule."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(14, 5), width_ratios=(1, 1.4))
    if "levels" in results:
        _bars(left, results["levels"])
    if "schedule" in results:
        _steps(right, results["schedule"])
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _bars(axes: Axes, levels: list[dict[str, Any]]) -> None:
    for place, (name, colour) in enumerate(_COLOURS.items()):
        heights = [each["ratios"][name] for each in levels]
        where = [index + 0.21 * (place - 1.5) for index in range(len(levels))]
        axes.bar(where, heights, width=0.19, color=colour, label="equal shares" if name == "Uniform" else name)
    axes.axhline(GOALS["levels"], color="black", linestyle=":", linewidth=1)
    axes.set_xticks(range(len(levels)), [f"HL{each['level']}" for each in levels])
    axes.set(title="throughput / Σ of the workers' own", ylim=(0, 1.1))
    axes.legend(loc="lower left")


def _steps(axes: Axes, schedule: dict[str, Any]) -> None:
    for name in ("Affine", "no tail", "Uniform"):
        times = schedule[name]["times"]
        label = f"{'equal shares' if name == 'Uniform' else name}: {schedule[name]['seconds']:.0f} s"
        lengths = [after - before for before, after in pairwise(times)]
        axes.plot(range(1, len(times)), lengths, color=_COLOURS[name], label=label)
    axes.set(title="schedule HL1-2-4-8-8-4-2-1", xlabel="step", ylabel="seconds of a step", ylim=0)
    axes.legend()
