"""Load a coordinator with 1 000 workers: python -m benchmarks.coordinator [--quick] [--json FILE] [--plot FILE].

The coordinator is a process of its own on one core. The workers are real WebSockets on loopback, from one process on
the other cores: it shares the machine, so what it takes from memory and caches is the coordinator's loss. How long
other processes had the coordinator's core is shown. Workers report once a second, although with this many the
coordinator asks for less.
"""

from __future__ import annotations

import asyncio
import gc
import math
import os
import sys
import time
from argparse import Namespace
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from aiohttp import ClientSession
from rich.table import Table

from omnilearn_coordinator.settings import JobSettings
from omnilearn_core.api.names import worker_name

from . import printing
from .goals import Verdict
from .load import Fleet, Line
from .serving import HOST, Order, Served, pin, served, usage_of

JOB = "load"
WORKERS = 1000
IN_FLIGHT = 64
_LIMIT_SECONDS = 120.0


def main() -> int:
    """Measure, print the figures, and say which goals are met."""
    parser = printing.options_of("coordinator", (__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, default=WORKERS, metavar="N", help="how many workers; default 1000")
    parser.add_argument("--profile", type=Path, metavar="FILE", help="profile the coordinator, which slows it down")
    options = parser.parse_args()
    began = time.monotonic()
    results = measure(options)
    verdicts = judge(results)
    console = printing.console()
    console.print(table_of(results))
    console.print(printing.goals_table("Goals", verdicts))
    if options.json:
        printing.write_figures(options.json, results, verdicts)
    if options.plot:
        draw(results, options.plot)
    print(f"took {time.monotonic() - began:.0f} s")
    return 0


def measure(options: Namespace) -> dict[str, Any]:
    """Serve a coordinator, load it, and return the figures as plain data."""
    first, *others = sorted(os.sched_getaffinity(0))
    names = tuple(worker_name(JOB, "w", index) for index in range(options.workers))
    settings = JobSettings(JOB, 32 * len(names), expected=len(names), most=len(names), start_wait=30.0)
    with served(Order(settings, names, first, options.profile)) as coordinator:
        pin(others or [first])
        figures = asyncio.run(_load(coordinator, seconds=5 if options.quick else 20, losses=2 if options.quick else 5))
    return {"workers": len(names), "cores": 1 + len(others), "load_average": os.getloadavg()[0], **figures}


async def _load(coordinator: Served, seconds: int, losses: int) -> dict[str, Any]:
    fleet = Fleet(JOB, coordinator.tokens, time.monotonic)
    await fleet.gather(HOST, coordinator.port)
    await _until_running(coordinator.port)
    gathered = time.monotonic() - fleet.began
    # A collection in here would be measured as the coordinator's.
    gc.collect()
    gc.freeze()
    idle = usage_of(coordinator.pid)
    closed = await _metered(coordinator, _closed_loop(fleet, seconds))
    opened = await _metered(coordinator, _open_loop(fleet, seconds))
    lost = await _metered(coordinator, _losses(fleet, coordinator.port, losses))
    return {
        "gather_seconds": gathered,
        "idle": asdict(idle),
        "closed": closed,
        "open": opened,
        "losses": lost,
        "end": asdict(usage_of(coordinator.pid)),
    }


async def _until_running(port: int) -> None:
    async with asyncio.timeout(_LIMIT_SECONDS), ClientSession() as session:
        while True:
            async with session.get(f"http://{HOST}:{port}/healthz") as response:
                if (await response.json())["phase"] == "Running":
                    return
            await asyncio.sleep(0.05)  # no message tells a worker that all others have entered


async def _metered(coordinator: Served, work: Any) -> dict[str, Any]:
    """Do some work; return its figures with what the coordinator has used meanwhile."""
    before, began = usage_of(coordinator.pid), time.monotonic()
    figures: dict[str, Any] = await work
    after, seconds = usage_of(coordinator.pid), time.monotonic() - began
    return {
        **figures,
        "seconds": seconds,
        "cpu_seconds": after.cpu_seconds - before.cpu_seconds,
        "waited_seconds": after.waited_seconds - before.waited_seconds,
    }


async def _closed_loop(fleet: Fleet, seconds: float) -> dict[str, Any]:
    """Keep some reports in flight, from one worker after the other; count what is answered."""
    waiting = deque(line for line in fleet.present if line is not fleet.lead)
    answered, end = 0, time.monotonic() + seconds

    def next_report(line: Line, _: float) -> None:
        nonlocal answered
        answered += 1
        waiting.append(line)
        if time.monotonic() < end:
            waiting.popleft().report()

    fleet.on_reply = next_report
    for _ in range(min(IN_FLIGHT, len(waiting))):
        waiting.popleft().report()
    await fleet.unless_failed(_each_second(fleet, [fleet.lead], seconds))
    fleet.on_reply = lambda *_: None
    return {"answered": answered, "in_flight": IN_FLIGHT}


async def _open_loop(fleet: Fleet, seconds: float) -> dict[str, Any]:
    """Let everybody report once a second, answered or not; measure how long each answer takes."""
    latencies: list[float] = []
    fleet.on_reply = lambda _, latency: latencies.append(latency)
    lateness: list[float] = []
    await fleet.unless_failed(_each_second(fleet, fleet.present, seconds, lateness))
    await fleet.unless_failed(_all_answered(fleet))
    fleet.on_reply = lambda *_: None
    return {
        "answered": len(latencies),
        "permille": percentiles(latencies, [q / 10 for q in range(1001)]),
        "late": percentiles(lateness, [50, 99, 100]),
    }


async def _all_answered(fleet: Fleet) -> None:
    while any(line.sent for line in fleet.present if line is not fleet.lead):  # noqa: ASYNC110 - once, at the end
        await asyncio.sleep(0.01)


async def _losses(fleet: Fleet, port: int, count: int) -> dict[str, Any]:
    """Break connections off, one after the other, while everybody goes on reporting."""
    arrivals = []
    reporting = asyncio.create_task(_each_second(fleet, fleet.present, _LIMIT_SECONDS))
    for _ in range(count):
        await _until_running(port)
        await asyncio.sleep(2.0)  # as in the middle of training: everybody has reported, and a plan or two were made
        arrivals.append(await fleet.lose(fleet.present[-1]))
    reporting.cancel()
    return {"arrivals": arrivals}


async def _each_second(
    fleet: Fleet, lines: Sequence[Line], seconds: float, lateness: list[float] | None = None
) -> None:
    """Report once a second, each worker at its own moment; note how much later than that it was sent."""
    due = sorted(((fleet.random.random(), line) for line in lines), key=lambda pair: pair[0])
    began = time.monotonic()
    for second in range(round(seconds)):
        for moment, line in due:
            wait = began + second + moment - time.monotonic()
            await asyncio.sleep(max(wait, 0.0))
            if lateness is not None:
                lateness.append(time.monotonic() - (began + second + moment))
            line.report()
    await asyncio.sleep(max(began + seconds - time.monotonic(), 0.0))


def percentiles(values: Iterable[float], percents: Iterable[float]) -> list[float]:
    """Return for each percentage the smallest value that at least so many of all values do not exceed."""
    ordered = sorted(values)
    return [ordered[max(math.ceil(len(ordered) * percent / 100), 1) - 1] for percent in percents]


def judge(results: dict[str, Any]) -> list[Verdict]:
    """Return the verdicts on both goals."""
    closed, opened = results["closed"], results["open"]
    rate = closed["answered"] / closed["seconds"]
    p99 = opened["permille"][990] * 1000
    return [
        Verdict(
            "reports answered on one core",
            "≥ 2 000/s",
            f"{rate:,.0f}/s ({closed['answered'] / closed['cpu_seconds']:,.0f} per second of CPU)",
            rate >= 2000,
            f"{results['workers']} workers, {closed['in_flight']} in flight{_disturbed(closed)}",
        ),
        Verdict(
            "from a report to its reply, 99th percentile",
            "< 50 ms",
            f"{p99:.1f} ms",
            p99 < 50,
            f"{results['workers']} workers, one report a second each{_disturbed(opened)}",
        ),
    ]


def _disturbed(phase: dict[str, Any]) -> str:
    """Say so if other processes have had a good part of the coordinator's core."""
    waited = phase["waited_seconds"] / phase["seconds"]
    return f"; disturbed: others had its core for {waited:.0%} of the time" if waited > 0.05 else ""


def table_of(results: dict[str, Any]) -> Table:
    """Return all figures as a table."""
    closed, opened, losses = results["closed"], results["open"], results["losses"]
    title = f"One coordinator, {results['workers']} workers; load from the same machine ({results['cores']} cores)"
    table = Table(title=title)
    table.add_column("figure")
    table.add_column("measured", justify="right")
    last = [arrivals[-1] for arrivals in losses["arrivals"]]
    half = [median(arrivals) for arrivals in losses["arrivals"]]
    memory = (results["idle"]["memory"], results["end"]["memory"], results["end"]["peak_memory"])
    rows = [
        ("from the first connection until all have entered", f"{results['gather_seconds']:.2f} s"),
        ("reports answered, closed loop", f"{closed['answered'] / closed['seconds']:,.0f}/s"),
        ("  the same per second of its CPU time", f"{closed['answered'] / closed['cpu_seconds']:,.0f}/s"),
        ("  the coordinator computed, and waited for its core", _cpu(closed)),
        ("report to reply, open loop, 50 %", _milliseconds(opened["permille"][500])),
        ("  99 %", _milliseconds(opened["permille"][990])),
        ("  longest", _milliseconds(opened["permille"][1000])),
        ("  the coordinator computed, and waited for its core", _cpu(opened)),
        ("  reports sent later than planned: 50 %, 99 %, worst", ", ".join(map(_milliseconds, opened["late"]))),
        (f"from a loss until all others are assigned, median of {len(last)}", _milliseconds(median(last))),
        ("  longest", _milliseconds(max(last))),
        ("  until half of them are, median", _milliseconds(median(half))),
        ("  the coordinator computed, and waited for its core", _cpu(losses)),
        ("memory: all entered, at the end, peak", ", ".join(f"{size / 2**20:.0f} MiB" for size in memory)),
        ("load average of the machine at the end", f"{results['load_average']:.1f}"),
    ]
    for figure, measured in rows:
        table.add_row(figure, measured)
    return table


def _cpu(phase: dict[str, Any]) -> str:
    return ", ".join(f"{phase[part] / phase['seconds']:.0%}" for part in ("cpu_seconds", "waited_seconds"))


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def draw(results: dict[str, Any], path: Path) -> None:
    """Draw the times from report to reply, and when assignments arrive after a loss."""
    from matplotlib import pyplot as plt  # noqa: PLC0415 - takes seconds to import

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5))
    shares = [q / 1000 for q in range(1001)]
    left.semilogx([max(1000 * seconds, 0.05) for seconds in results["open"]["permille"]], shares)
    left.axvline(50, color="black", linestyle=":", linewidth=1, label="goal for 99 %")
    left.axhline(0.99, color="lightgray", linewidth=1, zorder=0)
    left.set(title="one report a second and worker", xlabel="report to reply (ms)", ylabel="part of all reports")
    left.legend()
    for arrivals in results["losses"]["arrivals"]:
        right.plot([1000 * at for at in arrivals], range(1, len(arrivals) + 1), color="tab:blue", alpha=0.6)
    right.set(title="after the loss of one", xlabel="ms", ylabel="workers with the new assignment", xlim=0, ylim=0)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    print(f"picture: {path}")


if __name__ == "__main__":
    sys.exit(main())
