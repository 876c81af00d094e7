"""Compare all control laws with the oracle: python -m benchmarks.laws [--quick] [--json FILE] [--plot FILE].

Ratios in one run, on the simulator, with the same noise for everybody. A cell is one heterogeneity level, number of
workers, fixed-cost share and noise; its figure is the step time that the chosen shares would have without noise,
over that of the best shares there are.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from . import arms, goals, pictures, tables
from .grid import Grid, full, quick


def main() -> int:
    """Run the comparison, print it, and say which goals are met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.laws", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small part of the grid, for the tests")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write a picture to FILE")
    options = parser.parse_args()
    began = time.monotonic()
    results = measure(quick() if options.quick else full())
    verdicts = goals.judge(results)
    tables.show(results, verdicts)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({**results, "goals": [v.as_json() for v in verdicts]}, indent=1) + "\n")
        print(f"figures: {options.json}")
    if options.plot:
        pictures.draw(results, options.plot)
        print(f"picture: {options.plot}")
    print(f"took {time.monotonic() - began:.0f} s")
    failed = [verdict.goal for verdict in verdicts if verdict.required and not verdict.met]
    for goal in failed:
        print(f"a goal that was met before is not met any more: {goal}", file=sys.stderr)
    return 1 if failed else 0


def measure(grid: Grid) -> dict[str, Any]:
    """Run every cell of the grid and the timing; return the figures as plain data."""
    with ProcessPoolExecutor() as pool:
        steady = list(pool.map(arms.steady, grid.steady, chunksize=4))
        _progress(f"steady state: {len(steady)} cells")
        changes = list(pool.map(arms.change, grid.changes, chunksize=4))
        _progress(f"changes of level: {len(changes)} cells")
        schedules = list(pool.map(arms.schedule, grid.schedules, chunksize=2))
        _progress(f"schedules: {len(schedules)}")
    # Alone on the machine, or the pool would be measured along.
    decisions = [arms.decision_time(workers) for workers in (10, 100, 1000)]
    return {"steady": steady, "changes": changes, "schedules": schedules, "decisions": decisions}


def _progress(done: str) -> None:
    print(f"… {done}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
