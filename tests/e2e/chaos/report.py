"""What a run leaves in out/: figures as JSON, a table, and a picture of the shares with every fault in it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table

from omnilearn_cli.local.traces import merge, read_traces

from .consequences import Strike
from .driver import Run
from .log import target_of
from .verdict import Recovery


def summary(run: Run, recoveries: Sequence[Recovery], **more: Any) -> dict[str, Any]:
    """Return the figures of a run."""
    return {
        **more,
        "faults": sum(each.fault.count for each in run.strikes),
        "inAHurry": sum(each.fault.count for each in run.strikes if each.fault.hurry),
        "seconds": round(run.ended - run.began, 1),
        "epochs": run.epochs,
        "steps": run.last.step,
        "accuracy": run.last.accuracy,
        "failures": run.last.failures,
        "preemptions": run.last.preemptions,
        "events": {reason: run.last.tellings(reason) for reason in sorted({key[0] for key in run.last.told})},
        "kinds": by_kind(run.strikes, recoveries),
        "strikes": [_strike(each, run.began) for each in run.strikes],
        "recoveries": [asdict(each) for each in recoveries],
    }


def _strike(strike: Strike, began: float) -> dict[str, Any]:
    return {
        "number": strike.number,
        "fault": str(strike.fault),
        "target": target_of(strike),
        "at": round(strike.wall - began, 1),
        "seen": {name: round(seconds, 1) for name, seconds in strike.came.items()},
        "overtaken": strike.overtaken,
    }


def by_kind(strikes: Sequence[Strike], recoveries: Sequence[Recovery]) -> dict[str, dict[str, Any]]:
    """Return for each kind how many there were, and the median and the worst of its times."""
    times: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    counts: dict[str, int] = defaultdict(int)
    for strike in strikes:
        kind = str(strike.fault.kind)
        counts[kind] += strike.fault.count
        for name, seconds in strike.came.items():
            times[kind][name].append(seconds)
    for each in recoveries:
        times[each.kind]["stall"].append(each.stall)
        if each.to_commit is not None:
            times[each.kind]["to commit"].append(each.to_commit)
    figures = {
        kind: {name: [round(median(found), 2), round(max(found), 2)] for name, found in own.items()}
        for kind, own in times.items()
    }
    return {kind: {"count": counts[kind], **figures.get(kind, {})} for kind in sorted(counts)}


def table(kinds: dict[str, dict[str, Any]]) -> Table:
    """Return the same for people."""
    made = Table("fault", "count", "seen after: median (worst), s", title="recovery")
    for kind, figures in kinds.items():
        seen = [f"{name} {each[0]:g} ({each[1]:g})" for name, each in figures.items() if name != "count"]
        made.add_row(kind, str(figures["count"]), ", ".join(seen))
    return made


def write(folder: Path, figures: dict[str, Any]) -> None:
    """Write the figures down."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "chaos-cluster.json").write_text(json.dumps(figures, indent=1), encoding="utf-8")


def draw(folder: Path, run: Run, traces: Path, title: str) -> None:
    """Draw who computed how much of each step, with a line for every fault."""
    import matplotlib as mpl  # noqa: PLC0415 - a second that only a picture is worth
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    steps = [one for one in merge(read_traces(traces)[0]) if one.any.kind == "step"]
    workers = sorted({worker for one in steps for worker in one.parts})
    figure = Figure(figsize=(max(11.0, len(run.strikes) * 0.35), 6.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    times = [one.time - run.began for one in steps]
    shares = [[one.parts[worker].samples if worker in one.parts else 0 for one in steps] for worker in workers]
    axes.stackplot(times, shares, labels=workers, step="post", alpha=0.7)
    colours = mpl.colormaps["tab10"]
    kinds = sorted({str(each.fault.kind) for each in run.strikes})
    for strike in run.strikes:
        colour, at = colours(kinds.index(str(strike.fault.kind))), strike.wall - run.began
        axes.axvline(at, color=colour, linewidth=1.2)
        axes.text(at, 1.01, str(strike.fault.kind), rotation=60, fontsize=7, transform=axes.get_xaxis_transform())
    axes.set(xlabel="seconds", ylabel="samples of a step")
    axes.set_title(title, loc="left", pad=45)
    axes.legend(loc="lower right")
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "chaos-cluster.png", dpi=110)
