"""How long a loss, a freeze and a join last: python -m benchmarks.recovery [--quick] [--json FILE] [--plot FILE].

Real processes, in the arena of the chaos tests: five workers, a float64 model of several buckets, steps of about 20 ms.
"Raw" is the time from the fault to the survivors' next commit; "pause" is the same without what they computed in it,
because that had to be computed in any case.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from chaos.arena import SILENT_AFTER, Arena
from chaos.performer import Performer
from chaos.sequence import Fault, Scene

_SIZE = 5
_KILL_MEDIAN, _KILL_WORST, _JOIN_WORST = 0.15, 0.5, 0.3


def main() -> None:
    """Measure, print, and write down."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recovery", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few faults of each kind")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write a picture to FILE")
    options = parser.parse_args()
    kills, freezes = (6, 1) if options.quick else (50, 5)
    with tempfile.TemporaryDirectory(prefix="omnilearn-recovery-") as folder:
        results = asyncio.run(measure(Path(folder), kills, freezes))
    show(results)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    if options.plot:
        draw(results, options.plot)


async def measure(folder: Path, kills: int, freezes: int) -> dict[str, Any]:
    """Play the faults one after the other; return the times of each kind."""
    arena = Arena(folder, _SIZE)
    joins: list[float] = []
    try:
        await arena.start()
        performer = Performer(arena, random.Random(1), arena.names[-1])
        for number in range(kills):
            since = time.time()
            await performer.play(Fault(Scene.KILL, lowest=number % 5 == 0))
            joins += pauses_of_joins(arena, since)
        await _freeze(performer, freezes)
        commits = [commit for worker in arena.workers.values() for commit in worker.commits[-100:]]
    finally:
        await arena.stop()
    deaths = [each for each in performer.recoveries if each.kind == "death"]
    silences = [each for each in performer.recoveries if each.kind == "silence"]
    return {
        "stepSeconds": median(commit.step for commit in commits),
        "silentAfterSeconds": SILENT_AFTER,
        "kill": {"raw": [each.to_commit for each in deaths], "pause": [each.pause for each in deaths]},
        "freeze": {"raw": [each.to_commit for each in silences]},
        "join": {"pause": joins},
    }


async def _freeze(performer: Performer, count: int) -> None:
    for _ in range(count):
        await performer.play(Fault(Scene.FREEZE))


def pauses_of_joins(arena: Arena, since: float) -> list[float]:
    """Return how much longer than its computing the first round in a larger generation took, for those there before."""
    pauses = []
    for worker in arena.workers.values():
        commits = worker.commits
        for before, after in pairwise(commits):
            grew = len(after.members) > len(before.members) and after.generation > before.generation
            if grew and after.time > since:
                pauses.append(max(after.step - after.busy, 0.0))
    return [max(pauses)] if pauses else []


def _rows(results: dict[str, Any]) -> list[tuple[str, list[float], str, bool]]:
    kill, join = results["kill"], results["join"]["pause"]
    frozen, limit = results["freeze"]["raw"], results["silentAfterSeconds"] + 1.0
    good = median(kill["pause"]) < _KILL_MEDIAN and max(kill["pause"]) < _KILL_WORST
    return [
        ("SIGKILL: raw", kill["raw"], "", True),
        ("SIGKILL: pause", kill["pause"], f"median < {_KILL_MEDIAN} s, worst < {_KILL_WORST} s", good),
        ("frozen: raw", frozen, f"< {limit:g} s", max(frozen) < limit),
        ("join: pause of the others", join, f"< {_JOIN_WORST} s", max(join) < _JOIN_WORST),
    ]


def show(results: dict[str, Any]) -> None:
    """Print a table."""
    table = Table(title=f"{_SIZE} workers, steps of {results['stepSeconds'] * 1e3:.0f} ms")
    for column in ("fault", "n", "median", "90 %", "worst", "goal", ""):
        table.add_column(column)
    for name, times, goal, met in _rows(results):
        ordered = sorted(times)
        figures = (median(ordered), ordered[int(0.9 * (len(ordered) - 1))], ordered[-1])
        verdict = "" if not goal else "met" if met else "NOT MET"
        table.add_row(name, str(len(times)), *(f"{each:.3f} s" for each in figures), goal, verdict)
    Console(width=None if Console().is_terminal else 130).print(table)


def draw(results: dict[str, Any], path: Path) -> None:
    """Draw how the times are distributed."""
    figure, axes = plt.subplots(figsize=(8, 4.5))
    for name, times in (("SIGKILL, raw", results["kill"]["raw"]), ("SIGKILL, pause", results["kill"]["pause"]),
                        ("join, pause", results["join"]["pause"])):  # fmt: skip
        ordered = sorted(times)
        axes.step(ordered, [(place + 1) / len(ordered) for place in range(len(ordered))], where="post", label=name)
    axes.set(title="time until the others go on", xlabel="seconds", ylabel="part of the faults", ylim=0, xlim=0)
    axes.legend(loc="lower right")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main()
