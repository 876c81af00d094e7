"""shares.png: the shares and the speeds of a run over time, with what happened. Imports matplotlib; import it late."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from . import figures
from .events import Event
from .traces import Round

# What is worth a line in the picture; the rest is in events.jsonl.
MARKED = ("fault", "lost", "joined", "left")
NAMED = "fault"
_MOST_MARKS = 40


def draw(job: str, steps: Sequence[Round], events: Sequence[Event], path: Path) -> None:
    """Draw the shares and speeds by worker above the workers' speeds."""
    figure = Figure(figsize=(11, 7.5), layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, sharex=True)
    workers = sorted({worker for one in steps for worker in one.parts})
    times = [one.time - steps[0].time for one in steps]
    colours = _colours(workers)
    _shares(above, steps, times, colours)
    _speeds(below, steps, times, colours)
    above.set_title(f"{job}: shares and speeds", loc="left")
    below.set(xlabel="seconds", ylabel="samples/s while computing", ylim=0)
    marks = [event for event in events if event.kind.lower() in MARKED and event.time >= steps[0].time][:_MOST_MARKS]
    for axes in (above, below):
        for event in marks:
            axes.axvline(event.time - steps[0].time, color="tab:red", linestyle=":", linewidth=1)
    _name(above, [(event.time - steps[0].time, event.sentence) for event in marks if event.kind.lower() == NAMED])
    with path.open("wb") as file:
        figure.savefig(file, dpi=110, format="png")


def _colours(workers: Sequence[str]) -> dict[str, Any]:
    scale = mpl.colormaps["viridis"]
    return {worker: scale(place / max(len(workers) - 1, 1)) for place, worker in enumerate(workers)}


def _shares(axes: Axes, steps: Sequence[Round], times: Sequence[float], colours: dict[str, Any]) -> None:
    series = [[one.parts[worker].samples if worker in one.parts else 0 for one in steps] for worker in colours]
    axes.stackplot(times, series, labels=list(colours), colors=list(colours.values()), step="post", alpha=0.85)
    axes.set(ylabel="samples of a step", ylim=0)
    if len(colours) <= 12:
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), reverse=True)


def _speeds(axes: Axes, steps: Sequence[Round], times: Sequence[float], colours: dict[str, Any]) -> None:
    measured = list(figures.speeds(steps))
    for worker, colour in colours.items():
        # Nothing is drawn where the worker was away.
        values = [
            speed[worker] if worker in speed and worker in one.parts else float("nan")
            for one, speed in zip(steps, measured, strict=True)
        ]
        axes.plot(times, values, color=colour, linewidth=1.5)


def _name(axes: Axes, marks: Sequence[tuple[float, str]]) -> None:
    for row, (seconds, words) in enumerate(marks):
        axes.annotate(
            words.splitlines()[0][:60],
            (seconds, 0.03 + 0.06 * (row % 8)),  # neighbours on lines of their own
            xycoords=("data", "axes fraction"),
            xytext=(3, 0),
            textcoords="offset points",
            fontsize=8,
            color="tab:red",
            bbox={"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 1},
        )
