"""Updates per second of the asynchronous server: against its own arithmetic, and against a server over torch's RPC.

Workers send a gradient as soon as they are answered, so that nothing but the server and the way to it takes time. All
are on this machine and share its cores: with "light workers", the kernel drops what workers receive, so that what is
measured is nearer to what the server can do. "Applying" is what the thread that applies gradients is busy with for one
update, arithmetic over server: what the server would reach of its arithmetic if the wire had enough cores of its own.
The arms come one after the other; the order changes with every
repetition.

    python -m benchmarks.server [--quick] [--json FILE] [--plot FILE]
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table

from .printing import console, options_of
from .server_arms import ARMS, Task, measured

_ARITHMETIC, _LIGHT, _OURS, _RPC = "arithmetic", "ours, light workers", "ours", "torch RPC"
_GOALS = {"of arithmetic": 0.8, "times torch RPC": 1.5}
_CASES = [(1, "SGD"), (16, "SGD"), (16, "Adam"), (64, "SGD")]
_WORKERS, _SECONDS = 2, 3.0


def measure(task: Task, repetitions: int) -> dict[str, Any]:
    """Return the median of each arm, and all its figures."""
    found: dict[str, list[dict[str, Any]]] = {arm: [] for arm in ARMS}
    for repetition in range(repetitions):
        for arm in ARMS if repetition % 2 == 0 else reversed(ARMS):
            found[arm].append(asdict(measured(arm, task)))
    middle = {arm: median(each["updates_per_second"] for each in figures) for arm, figures in found.items()}
    return {
        "megabytes": task.megabytes,
        "optimizer": task.optimizer,
        "workers": task.workers,
        "updates_per_second": middle,
        "cpu_milliseconds": {arm: median(each["cpu_milliseconds"] for each in found[arm]) for arm in ARMS},
        "all": found,
        "of arithmetic": middle[_LIGHT] / middle[_ARITHMETIC],
        "applying": _applying(found[_ARITHMETIC]) / _applying(found[_LIGHT]),
        "times torch RPC": middle[_OURS] / middle[_RPC],
    }


def _applying(figures: list[dict[str, Any]]) -> float:
    """Return how long the thread that applies gradients is busy with one."""
    return float(median(each["applying_milliseconds"] for each in figures))


def draw(results: list[dict[str, Any]], path: Path) -> None:
    """Draw a bar for each arm and size."""
    import matplotlib as mpl  # noqa: PLC0415 - only with --plot

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(1, len(results), figsize=(4.5 * len(results), 4), squeeze=False)
    for place, result in zip(axes[0], results, strict=True):
        place.bar(list(ARMS), [result["updates_per_second"][arm] for arm in ARMS])
        place.set(title=f"{result['megabytes']} MB, {result['optimizer']}", ylabel="updates/s")
        place.tick_params(axis="x", rotation=30)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def table(results: list[dict[str, Any]]) -> Table:
    """Return the figures for people: updates per second, and milliseconds of the server's CPU for each."""
    figures = Table(title=f"updates per second (ms of the server's CPU for one), {_WORKERS} workers")
    for column in ("model", *ARMS, "applying", *(f"{goal} (goal {number})" for goal, number in _GOALS.items())):
        figures.add_column(column)
    for each in results:
        rates = [f"{each['updates_per_second'][arm]:.1f} ({each['cpu_milliseconds'][arm]:.2f})" for arm in ARMS]
        goals = [f"{each[goal]:.2f}" for goal in ("applying", *_GOALS)]
        figures.add_row(f"{each['megabytes']} MB, {each['optimizer']}", *rates, *goals)
    return figures


def main() -> None:
    """Measure, print, and write what was asked for."""
    parser = options_of("server", "updates per second of the asynchronous server")
    parser.add_argument("--megabytes", type=int, action="append", help="only models of this size; may be repeated")
    options = parser.parse_args()
    cases = [(16, "SGD")] if options.quick else _CASES
    results: list[dict[str, Any]] = []
    for size, optimizer in (case for case in cases if case[0] in (options.megabytes or [case[0]])):
        results.append(measure(Task(size, optimizer, _WORKERS, _SECONDS), 1 if options.quick else 3))
        console().print(table(results))  # the next one takes minutes
        if options.json:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
    if options.plot:
        draw(results, options.plot)


if __name__ == "__main__":
    main()
