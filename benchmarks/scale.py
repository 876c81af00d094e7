"""A thousand jobs of five pods each: python -m benchmarks.scale [--quick] [--json FILE] [--plot FILE].

Needs KUBECONFIG of a cluster without an operator, and tests/ in PYTHONPATH (`make scale` sets both). The API server is
real; nodes and pods are played by kwok; workers are connections of this process that speak the real protocol. All of
it shares this machine, so time is compared with bare creation of the same pods, and the operator judged by its CPU.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from argparse import Namespace
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from aiohttp import ClientSession

from . import fakes, printing, scale_views
from .cluster_api import Cluster, connected
from .reporters import Everybody
from .scale_phases import Stage
from .serving import pin
from .subject import Subject

WORKERS = 5
SIZES = (100, 1000)
QUICK = (20,)
NAMESPACE, BARE = "omnilearn-scale", "omnilearn-scale-bare"
_OUT = Path("out")


def main() -> int:
    """Measure, print the figures, and say which goals are met."""
    parser = printing.options_of("scale", (__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--jobs", type=int, nargs="+", metavar="N", help="how many jobs, one run each; default 100 1000"
    )
    parser.add_argument("--seconds", type=float, default=120.0, help="length of the steady state; default 120")
    parser.add_argument("--kwok", type=Path, metavar="FILE", help="this kwok instead of one that is built")
    parser.add_argument("--profile", type=Path, metavar="FILE", help="profile the operator, which slows it down")
    options = parser.parse_args()
    if not os.environ.get("KUBECONFIG"):
        parser.error("KUBECONFIG is not set: make cluster-up prints it")
    pin(sorted(os.sched_getaffinity(0)))  # for the number of sockets; every core may be used
    results = asyncio.run(measure(options))
    verdicts = scale_views.judge(results)
    console = printing.console()
    console.print(scale_views.table_of(results))
    console.print(printing.goals_table("Scale", verdicts))
    if options.json:
        printing.write_figures(options.json, results, verdicts)
    if options.plot:
        scale_views.draw(results, options.plot)
    return 0


async def measure(options: Namespace) -> dict[str, Any]:
    """Return the figures of each size, and what was seen on the way, as plain data."""
    sizes = tuple(options.jobs or (QUICK if options.quick else SIZES))
    kubeconfig, kwok = Path(os.environ["KUBECONFIG"]), options.kwok or fakes.kwok_program()
    runs = []
    for size in sizes:
        async with AsyncExitStack() as stack:
            cluster = await stack.enter_async_context(connected(kubeconfig))
            await fakes.clear(cluster, (NAMESPACE, BARE), crd=False)
            await gone(cluster, {NAMESPACE, BARE})
            new_crd = await fakes.prepare(cluster, (NAMESPACE, BARE), size * WORKERS)
            stack.push_async_callback(fakes.clear, cluster, (NAMESPACE, BARE), crd=new_crd)
            stack.enter_context(fakes.played(kubeconfig, kwok, _OUT / "scale-kwok.log"))
            subject = Subject(kubeconfig, NAMESPACE, _OUT / "scale-operator.log", options.profile)
            stack.callback(subject.stop)
            session = await stack.enter_async_context(ClientSession())
            people = Everybody(cluster, NAMESPACE, subject.address, subject.server_name)
            stage = Stage(cluster, subject, session, people, jobs=size, workers=WORKERS)
            seconds = 20.0 if options.quick else options.seconds
            runs.append(await stage.play(NAMESPACE, BARE, seconds))
        if options.json:  # the next size may take long, and may not come to its end
            printing.write_figures(options.json, {"runs": runs}, [])
    return {"runs": runs, "cores": os.cpu_count(), "load_average": os.getloadavg()[0]}


async def gone(cluster: Cluster, namespaces: set[str], seconds: float = 300.0) -> None:
    """Wait until nothing of an earlier run is left."""
    end = time.monotonic() + seconds
    while namespaces & {each["metadata"]["name"] for each in await cluster.every("Namespace")}:
        if time.monotonic() > end:
            raise TimeoutError(f"a namespace of an earlier run is not gone after {seconds:g} s")
        await asyncio.sleep(1.0)


if __name__ == "__main__":
    sys.exit(main())
