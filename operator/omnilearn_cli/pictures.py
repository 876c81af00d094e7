"""Pictures as files: no window is ever opened."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from omnilearn_core.simulate.run import Trace

from .simulation import ORACLE, Comparison

_COLOURS = {"Uniform": "tab:gray", "Proportional": "tab:orange", ORACLE: "black"}


def draw(comparison: Comparison, path: Path) -> None:
    """Draw step times of the laws above the shares of the law in question."""
    figure = Figure(figsize=(11, 7.5), layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, sharex=True)
    _step_times(above, comparison)
    _shares(below, comparison.chosen)
    below.set_title(f"shares under {comparison.law}", loc="left")
    path.parent.mkdir(parents=True, exist_ok=True)
    # Opened here: left to itself, matplotlib adds endings to names and chooses formats by them.
    with path.open("wb") as file:
        figure.savefig(file, dpi=110, format="png")


def _step_times(axes: Axes, comparison: Comparison) -> None:
    for name in dict.fromkeys(("Uniform", "Proportional", comparison.law, ORACLE)):
        trace = comparison.traces[name]
        axes.step(
            [window.first_step for window in trace.windows],
            [1000.0 * window.step_seconds for window in trace.windows],
            where="post",
            label=name,
            color=_COLOURS.get(name, "tab:blue"),
            linestyle="--" if name == ORACLE else "-",
        )
    gain = comparison.traces["Uniform"].seconds / comparison.chosen.seconds
    axes.set_title(f"{comparison.law} is {gain:.2f} × as fast as equal shares", loc="left")
    axes.set(ylabel="step time (ms)", ylim=0)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
    _mark_events(axes, comparison.chosen, named=True)


def _shares(axes: Axes, trace: Trace) -> None:
    workers = list(dict.fromkeys(worker for window in trace.windows for worker in window.shares))
    steps = [window.first_step for window in trace.windows] + [trace.scenario.steps]
    series = [[window.shares.get(worker, 0) for window in trace.windows] for worker in workers]
    series = [[*values, values[-1]] for values in series]
    colours = mpl.colormaps["viridis"]
    axes.stackplot(
        steps,
        series,
        labels=workers,
        colors=[colours(index / max(len(workers) - 1, 1)) for index in range(len(workers))],
        step="post",
        alpha=0.85,
    )
    axes.set(
        xlabel="step", ylabel="samples of a step", xlim=(0, trace.scenario.steps), ylim=(0, trace.scenario.global_batch)
    )
    if len(workers) <= 12:
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), reverse=True)
    _mark_events(axes, trace, named=False)


def _mark_events(axes: Axes, trace: Trace, *, named: bool) -> None:
    for row, window in enumerate(window for window in trace.windows if window.events):
        axes.axvline(window.first_step, color="tab:red", linestyle=":", linewidth=1)
        if named:
            axes.annotate(
                "\n".join(window.events),
                (window.first_step, 0.03 + 0.06 * (row % 3)),  # neighbours on lines of their own
                xycoords=("data", "axes fraction"),
                xytext=(3, 0),
                textcoords="offset points",
                fontsize=8,
                color="tab:red",
            )
