"""The comparison as a picture."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from omnilearn_core.simulate.run import simulate

from .arms import ARMS, PHASE_WINDOWS, TOLD
from .layouts import SCHEDULE, Case, phases

_SHOWN = {"Uniform": "tab:gray", "Released": "tab:red", "Proportional": "tab:orange", "Affine": "tab:blue"}


def draw(results: dict[str, Any], path: Path) -> None:
    """Draw steady states, recovery and the schedule side by side."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(17, 5), width_ratios=(1, 1, 1.6))
    _steady(left, results["steady"])
    _recovery(middle, results["changes"])
    _schedule(right)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _steady(axes: Axes, cells: list[dict[str, Any]]) -> None:
    shares = sorted({cell["fixed_share"] for cell in cells})
    for arm, colour in _SHOWN.items():
        if arm == "Uniform":
            continue
        figures = [
            fmean(c["arms"][arm]["steady"] for c in cells if c["fixed_share"] == share and c["noise"] == 0.03)
            for share in shares
        ]
        axes.plot(shares, figures, marker="o", color=colour, label=arm)
    axes.axhline(1.02, color="black", linestyle=":", linewidth=1, label="goal 1.02")
    axes.set(title="steady state, 3 % noise", xlabel="fixed-cost share of a step", ylabel="step time / oracle's")
    axes.legend()


def _recovery(axes: Axes, cells: list[dict[str, Any]]) -> None:
    calm = [cell for cell in cells if cell["noise"] == 0.03]
    for arm, colour in _SHOWN.items():
        curve = [fmean(cell["arms"][arm][window] for cell in calm) for window in range(12)]
        axes.plot(range(1, 13), curve, marker=".", color=colour, label=arm)
    axes.axhline(1.05, color="black", linestyle=":", linewidth=1, label="5 %")
    axes.set(
        title="after a change of level, 3 % noise",
        xlabel="control window",
        ylabel="step time / oracle's",
        ylim=(0.98, 1.8),
    )
    axes.legend()


def _schedule(axes: Axes) -> None:
    case = Case(fixed_share=0.2, noise=0.02, seed=1)
    for arm, colour in {**_SHOWN, f"Affine{TOLD}": "tab:green", "Oracle": "black"}.items():
        told = Case(fixed_share=0.2, noise=0.02, seed=1, told=TOLD in arm)
        trace = simulate(phases(told if told.told else case, SCHEDULE, PHASE_WINDOWS), ARMS[arm]())
        style = "--" if arm == "Oracle" else "-"
        seconds = [window.expected_seconds for window in trace.windows]
        axes.step(range(len(seconds)), seconds, where="post", color=colour, label=arm, linestyle=style)
    for index, level in enumerate(SCHEDULE):
        axes.axvline(index * PHASE_WINDOWS, color="lightgray", linewidth=1, zorder=0)
        axes.text(index * PHASE_WINDOWS + 0.5, 0.02, f"HL{level}", transform=axes.get_xaxis_transform(), color="gray")
    axes.set(title="schedule, 20 % fixed cost, 2 % noise", xlabel="control window", ylabel="step time (s)", ylim=0)
    axes.legend(loc="upper left")
