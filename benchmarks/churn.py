"""A day of jobs that come and go, in fast-forward: python -m benchmarks.churn [--quick] [--json FILE] [--plot FILE].

Needs what `benchmarks.scale` needs (`make churn` sets it). Jobs of two workers are created in waves against the real
API server; a third of each wave is deleted at once, the others when they train. After each wave, when nothing is left
of it, the operator is looked at: its memory, tasks, threads, open files and series must be what they were.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Protocol

from aiohttp import ClientSession
from rich.table import Table

from omnilearn_core.api import names

from . import fakes, printing
from .cluster_api import Cluster, connected
from .goals import Verdict
from .reporters import Everybody
from .scale import gone
from .serving import pin
from .subject import Subject, in_phase, jobs_in, series_of_jobs

NAMESPACE = "omnilearn-churn"
WORKERS, WAVE = 2, 50
CYCLES, QUICK = 2000, 300
_AT_ONCE_DELETED = 3
_WAVE_SECONDS, _LOOK_SECONDS = 120.0, 0.3
_OUT = Path("out")
MIB = 2**20

Figures = dict[str, float]


class Measured(Protocol):
    """An operator that can be asked for its numbers."""

    async def numbers(self, session: ClientSession, *, jobs: bool = False) -> Figures:
        """Return its metrics."""
        ...


def main() -> int:
    """Measure, print the figures, and say whether all is flat."""
    parser = printing.options_of("churn", (__doc__ or "").splitlines()[0])
    parser.add_argument("--cycles", type=int, metavar="N", help="how many jobs; default 2000")
    parser.add_argument("--kwok", type=Path, metavar="FILE", help="this kwok instead of one that is built")
    options = parser.parse_args()
    if not os.environ.get("KUBECONFIG"):
        parser.error("KUBECONFIG is not set: make cluster-up prints it")
    pin(sorted(os.sched_getaffinity(0)))
    rows = asyncio.run(measure(options))
    verdicts = judge(rows)
    console = printing.console()
    console.print(table_of(rows))
    console.print(printing.goals_table("Churn", verdicts))
    if options.json:
        printing.write_figures(options.json, {"waves": rows}, verdicts)
    if options.plot:
        draw(rows, options.plot)
    return 0


async def measure(options: Namespace) -> list[Figures]:
    """Return what the operator uses after each wave."""
    kubeconfig, kwok = Path(os.environ["KUBECONFIG"]), options.kwok or fakes.kwok_program()
    cycles = options.cycles or (QUICK if options.quick else CYCLES)
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(connected(kubeconfig))
        await fakes.clear(cluster, (NAMESPACE,), crd=False)
        await gone(cluster, {NAMESPACE})
        new_crd = await fakes.prepare(cluster, (NAMESPACE,), 10 * WAVE * WORKERS)
        stack.push_async_callback(fakes.clear, cluster, (NAMESPACE,), crd=new_crd)
        stack.enter_context(fakes.played(kubeconfig, kwok, _OUT / "churn-kwok.log"))
        await cluster.create("Pod", fakes.operator_pod(NAMESPACE), NAMESPACE)
        subject = Subject(kubeconfig, NAMESPACE, _OUT / "churn-operator.log")
        stack.callback(subject.stop)
        subject.start()
        session = await stack.enter_async_context(ClientSession())
        people = Everybody(cluster, NAMESPACE, subject.address, subject.server_name)
        return await churn(cluster, NAMESPACE, subject, session, people, cycles // WAVE)


async def churn(
    cluster: Cluster, namespace: str, subject: Measured, session: ClientSession, people: Everybody, waves: int
) -> list[Figures]:
    """Play waves of jobs; return what the operator uses after each."""
    began = time.monotonic()
    await _until(subject, session, lambda numbers: numbers.get("omnilearn_leads") == 1)
    following = asyncio.create_task(people.follow())
    rows = []
    try:
        for number in range(waves):
            await _wave(cluster, namespace, subject, session, number)
            row = await _rest(subject, session)
            rows.append({"at": time.monotonic() - began, "cycles": (number + 1) * WAVE, **row})
            shown = ", ".join(f"{name} {value:.0f}" for name, value in row.items())
            print(f"{rows[-1]['at']:7.1f} s  {rows[-1]['cycles']:.0f} jobs: {shown}", flush=True)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    return rows


async def _wave(cluster: Cluster, namespace: str, subject: Measured, session: ClientSession, number: int) -> None:
    """Create jobs and delete them, some at once, the others when they train."""
    jobs = [fakes.job(f"wave{number}-{index}", WORKERS) for index in range(WAVE)]
    await cluster.create_all(names.KIND, jobs, namespace)
    short = [each["metadata"]["name"] for each in jobs[::_AT_ONCE_DELETED]]
    await asyncio.gather(*(cluster.delete(names.KIND, name, namespace) for name in short))
    left = WAVE - len(short)
    await _until(subject, session, lambda n: in_phase(n, "Running") == jobs_in(n) == left)
    await cluster.delete_all(names.KIND, namespace)
    # The garbage collector would do it, twenty objects in a second.
    await cluster.delete_all("Pod", namespace, selector=f"{names.MANAGED_LABEL}=true", grace=0)
    await _until(subject, session, lambda n: jobs_in(n) == 0 and n.get("omnilearn_connections") == 0)


async def _rest(subject: Measured, session: ClientSession) -> Figures:
    """Return what the operator uses once the last tasks of a wave have ended."""
    await _until(subject, session, lambda n: n.get("omnilearn_events_waiting") == n.get("omnilearn_queue") == 0)
    fewest, calm = float("inf"), 0
    async with asyncio.timeout(_WAVE_SECONDS):
        while calm < 4:  # no fewer for a while
            numbers = await subject.numbers(session, jobs=True)
            tasks = numbers.get("omnilearn_tasks", 0.0)
            fewest, calm = (tasks, 0) if tasks < fewest else (fewest, calm + 1)
            await asyncio.sleep(_LOOK_SECONDS)
    return {
        "memory": numbers.get("process_resident_memory_bytes", 0.0) / MIB,
        "tasks": fewest,
        "threads": numbers.get("omnilearn_threads", 0.0),
        "files": numbers.get("process_open_fds", 0.0),
        "series": float(len(numbers)),
        "of_jobs": float(series_of_jobs(numbers)),
    }


async def _until(subject: Measured, session: ClientSession, true: Callable[[Figures], bool]) -> None:
    numbers: Figures = {}
    try:
        async with asyncio.timeout(_WAVE_SECONDS):
            while not numbers or not true(numbers):
                await asyncio.sleep(_LOOK_SECONDS)
                numbers = await subject.numbers(session)
    except TimeoutError:
        kept = {name: value for name, value in numbers.items() if name.startswith(("omnilearn_jobs", "omnilearn_co"))}
        raise TimeoutError(f"a wave did not pass within {_WAVE_SECONDS:g} s: {kept}") from None


def judge(rows: Sequence[Figures]) -> list[Verdict]:
    """Compare the second quarter of the waves, after the warm-up, with the last."""
    quarter = max(1, len(rows) // 4)
    early, late = rows[quarter : 2 * quarter] or rows[:1], rows[-quarter:]
    verdicts = []
    limits = {"memory": 0.05, "tasks": 0.0, "threads": 0.0, "files": 0.0, "series": 0.0}
    for name, share in limits.items():
        before, after = (median(row[name] for row in part) for part in (early, late))
        allowed = max(share * before, 2.0)
        unit = " MiB" if name == "memory" else ""
        wanted = f"≤ +{allowed:.0f}{unit}"
        measured = f"{before:.0f} → {after:.0f}{unit}"
        verdicts.append(Verdict(name, wanted, measured, after - before <= allowed, f"{rows[-1]['cycles']:.0f} jobs"))
    left = max(row["of_jobs"] for row in rows)
    verdicts.append(Verdict("series of jobs that are gone", "0", f"{left:.0f}", left == 0))
    return verdicts


def table_of(rows: Sequence[Figures]) -> Table:
    """Return a few of the waves as a table."""
    table = Table(title="After each wave")
    columns = ("cycles", "memory", "tasks", "threads", "files", "series", "of_jobs")
    for column in columns:
        table.add_column(column, justify="right")
    for row in rows[:: max(1, len(rows) // 10)]:
        table.add_row(*(f"{row[column]:.0f}" for column in columns))
    return table


def draw(rows: Sequence[Figures], path: Path) -> None:
    """Draw what the operator uses over the number of jobs."""
    from matplotlib import pyplot as plt  # noqa: PLC0415 - takes seconds to import

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5))
    cycles = [row["cycles"] for row in rows]
    left.plot(cycles, [row["memory"] for row in rows])
    left.set(ylabel="memory (MiB)", xlabel="jobs created and deleted", ylim=0)
    for name in ("tasks", "threads", "files"):
        right.plot(cycles, [row[name] for row in rows], label=name)
    right.set(xlabel="jobs created and deleted", ylim=0)
    right.legend()
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    print(f"picture: {path}")


if __name__ == "__main__":
    sys.exit(main())
