"""The phases of `benchmarks.scale`: bare pods, jobs, the steady state, latency, a restart, the end."""

from __future__ import annotations

import asyncio
import gc
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

from aiohttp import ClientSession

from omnilearn_core.api import names

from . import fakes
from .cluster_api import Cluster
from .coordinator import percentiles
from .reporters import Everybody
from .subject import Subject, calls_in, cpu_of_programs, in_phase, jobs_in, now, series_of_jobs, writes_in

_PROGRAMS = ("kube-apiserver", "etcd", "kube-scheduler", "kube-controller-manager", "kwok")
_SAMPLE_SECONDS, _LOOK_SECONDS, _SAY_SECONDS = 2.0, 1.0, 15.0
_LATENCY_SECONDS = 45.0

Figures = dict[str, Any]
Numbers = dict[str, float]


class Stage:
    """One run of all phases with so many jobs."""

    def __init__(
        self, cluster: Cluster, subject: Subject, session: ClientSession, people: Everybody, *, jobs: int, workers: int
    ) -> None:
        self._cluster, self._subject, self._session, self._people = cluster, subject, session, people
        self._jobs, self._workers = jobs, workers
        self._began = now()
        self._phase = ""
        self.samples: list[Figures] = []
        self.phases: dict[str, Figures] = {}

    async def play(self, namespace: str, bare: str, steady_seconds: float) -> Figures:
        """Play all phases; return their figures and what was seen on the way."""
        async with self._timed("bare", operator=False):
            await self._bare(bare)
        await self._cluster.create("Pod", fakes.operator_pod(namespace), namespace)
        self._subject.start()
        await self._until("the operator leads", lambda n: n.get("omnilearn_leads") == 1, 60)
        tasks = [asyncio.create_task(self._sample()), asyncio.create_task(self._people.follow())]
        try:
            async with self._timed("create"):
                await self._create(namespace)
            async with self._timed("steady"):
                await asyncio.sleep(steady_seconds)
            async with self._timed("latency"):
                self.phases["latency"] = await self._latency(min(steady_seconds, _LATENCY_SECONDS))
            async with self._timed("restart", operator=False):
                await self._restart()
            async with self._timed("delete"):
                await self._delete(namespace)
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return {"jobs": self._jobs, "workers": self._workers, "phases": self.phases, "samples": self.samples}

    def _say(self, text: str) -> None:
        print(f"{now() - self._began:7.1f} s  {self._jobs} jobs: {text}", flush=True)

    @asynccontextmanager
    async def _timed(self, phase: str, *, operator: bool = True) -> AsyncIterator[None]:
        """Note what a phase takes, and what all have used in it."""
        self._phase = phase
        began, others = now(), cpu_of_programs(_PROGRAMS)
        used = self._subject.used() if operator else None
        before = await self._subject.numbers(self._session) if operator else {}
        yield
        seconds = now() - began
        figures = self.phases.setdefault(phase, {})
        figures["seconds"] = seconds
        after = cpu_of_programs(_PROGRAMS)
        figures["cpu_of_others"] = {
            name: sum(after[key] - others[key] for key in after.keys() & others.keys() if key[0] == name)
            for name in _PROGRAMS
        }
        if used is not None:
            numbers = await self._subject.numbers(self._session)
            figures |= self._difference(before, numbers, used.cpu_seconds)
        self._say(f"{phase}: {seconds:.1f} s" + (f", operator {figures['cpu_seconds']:.1f} s of CPU" if used else ""))

    def _difference(self, before: Numbers, after: Numbers, cpu_before: float) -> Figures:
        used = self._subject.used()
        calls, earlier = calls_in(after), calls_in(before)
        return {
            "cpu_seconds": used.cpu_seconds - cpu_before,
            "writes": writes_in(after) - writes_in(before),
            "calls": {name: value - earlier.get(name, 0.0) for name, value in calls.items()},
            "reports": after.get("omnilearn_reports_total", 0.0) - before.get("omnilearn_reports_total", 0.0),
            "looks": after.get("omnilearn_looks_total", 0.0) - before.get("omnilearn_looks_total", 0.0),
            "retries": after.get("omnilearn_reconcile_retries_total", 0.0),
            "events_dropped": after.get("omnilearn_events_dropped_total", 0.0),
            "memory": used.memory,
        }

    async def _sample(self) -> None:
        """Look at the operator every few seconds."""
        while True:
            numbers = await self._subject.numbers(self._session)
            try:
                used = asdict(self._subject.used())
            except (RuntimeError, OSError):
                used = {}  # it is just being replaced
            kept = ("queue", "connections", "members", "tasks", "events_waiting", "loop_lag_seconds")
            chosen = {name: numbers.get(f"omnilearn_{name}", 0.0) for name in kept}
            self.samples.append({"at": now() - self._began, "phase": self._phase, **used, **chosen})
            await asyncio.sleep(_SAMPLE_SECONDS)

    async def _until(self, what: str, true: Callable[[Numbers], bool], seconds: float) -> Numbers:
        """Wait until something is true of the operator's numbers."""
        end, say = now() + seconds, now() + _SAY_SECONDS
        while True:
            self._subject.used()
            numbers = await self._subject.numbers(self._session)
            if numbers and true(numbers):
                return numbers
            if now() > end:
                raise TimeoutError(f"{what}: not within {seconds:g} s; {self._standing(numbers)}")
            if now() > say:
                say = now() + _SAY_SECONDS
                self._say(f"waiting until {what}: {self._standing(numbers)}")
            await asyncio.sleep(_LOOK_SECONDS)

    def _standing(self, numbers: Numbers) -> str:
        members, queue = numbers.get("omnilearn_members", 0), numbers.get("omnilearn_queue", 0)
        running, connections = in_phase(numbers, "Running"), numbers.get("omnilearn_connections", 0)
        waiting = numbers.get("omnilearn_events_waiting", 0)
        return (
            f"{running} of {jobs_in(numbers)} jobs run, {connections:.0f} workers are connected, {members:.0f} train,"
            f" {queue:.0f} jobs and {waiting:.0f} events wait, {len(self._people.reporters)} workers dial,"
            f" the loop is late by {numbers.get('omnilearn_loop_lag_seconds', 0):.2f} s"
        )

    def _all_train(self, numbers: Numbers) -> bool:
        everybody = self._jobs * self._workers
        return in_phase(numbers, "Running") == self._jobs and numbers["omnilearn_members"] == everybody

    async def _bare(self, namespace: str) -> None:
        """Create the same pods by a plain loop, and wait until all run."""
        wanted, running = self._jobs * self._workers, set()
        began = now()

        async def watch() -> None:
            async for _, pod in self._cluster.changes("Pod", namespace):
                if pod.get("status", {}).get("phase") == "Running":
                    running.add(pod["metadata"]["name"])
                if len(running) >= wanted:
                    return

        async with asyncio.timeout(60 + wanted / 5):
            watching = asyncio.create_task(watch())
            pods = list(fakes.bare_pods(self._jobs, self._workers, namespace))
            await self._cluster.create_all("Pod", pods, namespace)
            created = now() - began
            await watching
        self.phases["bare"] = {"created_seconds": created, "ready_seconds": now() - began}
        self._say(f"{wanted} bare pods created in {created:.1f} s, all run after {now() - began:.1f} s")
        await self._cluster.delete_all("Pod", namespace, grace=0)

    async def _create(self, namespace: str) -> None:
        jobs = [fakes.job(f"job{index}", self._workers) for index in range(self._jobs)]
        began = now()
        await self._cluster.create_all(names.KIND, jobs, namespace)
        self._say(f"all jobs are created after {now() - began:.1f} s")
        await self._until("all jobs train with all members", self._all_train, 120 + self._jobs)

    async def _latency(self, seconds: float) -> Figures:
        """Note how long each reply takes, with a scrape of all metrics on the way."""
        gc.collect()
        gc.freeze()  # a collection in here would be measured as the operator's
        noted: deque[float] = deque()
        self._people.latencies = noted
        await asyncio.sleep(seconds / 2)
        began = now()
        series = await self._subject.numbers(self._session, jobs=True)
        scrape = now() - began
        await asyncio.sleep(seconds / 2)
        self._people.latencies = None
        gc.unfreeze()
        marks = percentiles(noted, [50, 90, 99, 99.9, 100]) if noted else [0.0] * 5
        return {"answered": len(noted), "percentiles": marks, "scrape_seconds": scrape, "series": len(series)}

    async def _restart(self) -> None:
        """Kill the operator and start it again; wait until all is as it was."""
        began = now()
        for each in self._people.reporters:
            each.answered = 0
        before = {name: crew.number for name, crew in self._people.crews.items()}
        self._subject.kill()
        self._subject.start()
        await self._until("the operator leads again", lambda n: n.get("omnilearn_leads") == 1, 60)
        leads = now() - began
        await self._until("all jobs are adopted", self._all_train, 300)
        adopted = now() - began
        await self._until("all reports are answered", lambda _: all(e.answered for e in self._people.reporters), 120)
        self.phases["restart"] = {
            "leads_seconds": leads,
            "adopted_seconds": adopted,
            "answered_seconds": now() - began,
            "operator_cpu_seconds": self._subject.used().cpu_seconds,
            "memory": self._subject.used().memory,
            "regrouped": sum(crew.number != before.get(name) for name, crew in self._people.crews.items()),
            "trouble": sum(crew.trouble for crew in self._people.crews.values()),
        }
        self._say(f"leads after {leads:.1f} s, all adopted after {adopted:.1f} s, answered after {now() - began:.1f} s")

    async def _delete(self, namespace: str) -> None:
        """Delete all jobs; wait until the operator has let go of all, then help the garbage collector."""
        began = now()
        await self._cluster.delete_all(names.KIND, namespace)
        await self._until("the operator has forgotten all jobs", lambda n: jobs_in(n) == 0, 120 + self._jobs)
        forgotten = now() - began
        # The controllers delete twenty objects in a second: that is not the operator's time.
        await self._cluster.delete_all("Pod", namespace, selector=f"{names.MANAGED_LABEL}=true", grace=0)
        numbers = await self._until("all workers are gone", lambda n: n.get("omnilearn_connections") == 0, 300)
        series = await self._subject.numbers(self._session, jobs=True)
        self.phases["delete"] = {
            "forgotten_seconds": forgotten,
            "gone_seconds": now() - began,
            "series_of_jobs": series_of_jobs(series),
            "tasks": numbers.get("omnilearn_tasks", 0.0),
        }
