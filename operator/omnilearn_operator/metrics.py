"""The numbers of all jobs for Prometheus, and of the operator itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from omnilearn_coordinator.metrics import Refused, series
from omnilearn_coordinator.view import JobView

from .registry import Key, Registry

Calls = Mapping[tuple[str, str], int]
"""Calls of the API by verb and kind."""

_VIEWS_AT_ONCE = 20


@dataclass(frozen=True, slots=True)
class Shown:
    """What an operator that leads shows."""

    registry: Registry
    views: Callable[[], Iterator[tuple[Key, JobView]]]
    retries: int
    refused: Mapping[str, int]
    """What was refused, by kind, that belongs to no job."""

    looks: int = 0
    waiting: int = 0
    """Jobs that are due and wait for their turn."""

    connected: int = 0
    members: int = 0
    reports: int = 0
    events_waiting: int = 0
    events_dropped: int = 0


class Numbers(Collector):
    """The series of the operator itself: as many with a thousand jobs as with one. Who does not lead has few."""

    def __init__(
        self,
        shown: Callable[[], Shown | None],
        reigns: Callable[[], int],
        calls: Callable[[], Calls],
        late: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._shown, self._reigns, self._calls, self._late = shown, reigns, calls, late

    def describe(self) -> list[Metric]:
        """Describe nothing in advance: a registry asks for it when it starts."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the series as they are now."""
        shown = self._shown()
        yield _gauge("omnilearn_leads", "1 if this replica leads, else 0.", 0 if shown is None else 1)
        yield _counter("omnilearn_reigns", "How often this replica has begun to lead.", self._reigns())
        yield _gauge("omnilearn_tasks", "Tasks of the event loop.", len(asyncio.all_tasks()))
        yield _gauge("omnilearn_loop_lag_seconds", "How late the event loop was at worst, lately.", self._late())
        yield _gauge("omnilearn_threads", "Threads of the process.", threading.active_count())
        calls = CounterMetricFamily("omnilearn_api_calls", "Calls of the API server.", labels=["verb", "kind"])
        for key, count in self._calls().items():
            calls.add_metric(key, count)
        yield calls
        if shown is not None:
            yield from _of_leader(shown)


class OperatorMetrics:
    """The text that Prometheus gets: of the operator, and of its jobs. What is gone leaves nothing."""

    def __init__(
        self,
        shown: Callable[[], Shown | None],
        reigns: Callable[[], int],
        calls: Callable[[], Calls] = dict,
        late: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._shown = shown
        self._own = CollectorRegistry()
        ProcessCollector(registry=self._own)
        self._own.register(Numbers(shown, reigns, calls, late))

    def own_text(self) -> bytes:
        """Return the series of the operator itself in Prometheus' text format."""
        return generate_latest(self._own)

    async def text(self) -> bytes:
        """Return all series; those of many jobs are put into words beside the loop, which workers wait for."""
        own, shown = self.own_text(), self._shown()
        if shown is None:
            return own
        views: dict[tuple[str, ...], JobView] = {}
        for key, view in shown.views():
            views[tuple(key)] = view
            if len(views) % _VIEWS_AT_ONCE == 0:
                await asyncio.sleep(0)
        return own + await asyncio.to_thread(_text_of, views, {("", ""): shown.refused})


class _Jobs(Collector):
    def __init__(self, views: Mapping[tuple[str, ...], JobView], strays: Refused) -> None:
        self._views, self._strays = views, strays

    def collect(self) -> Iterator[Metric]:
        yield from series(self._views, ("namespace", "job"), self._strays)


def _text_of(views: Mapping[tuple[str, ...], JobView], strays: Refused) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Jobs(views, strays))
    return generate_latest(registry)


def _of_leader(shown: Shown) -> Iterator[Metric]:
    jobs = GaugeMetricFamily("omnilearn_jobs", "Jobs by phase.", labels=["phase"])
    phases: dict[str, int] = {}
    for job in shown.registry.jobs.values():
        phase = str(job.status.phase) if job.status is not None and job.status.phase is not None else "Pending"
        phases[phase] = phases.get(phase, 0) + 1
    for phase, count in phases.items():
        jobs.add_metric([phase], count)
    yield jobs
    yield _counter("omnilearn_looks", "Looks at a job.", shown.looks)
    yield _counter("omnilearn_reconcile_retries", "Looks at a job that failed and were repeated.", shown.retries)
    yield _gauge("omnilearn_queue", "Jobs that are due and wait for their turn.", shown.waiting)
    yield _gauge("omnilearn_connections", "Workers that are connected.", shown.connected)
    yield _gauge("omnilearn_members", "Workers that train.", shown.members)
    yield _counter("omnilearn_reports", "Reports of workers.", shown.reports)
    yield _gauge("omnilearn_events_waiting", "Events that wait to be written.", shown.events_waiting)
    yield _counter("omnilearn_events_dropped", "Events not written, because too many waited.", shown.events_dropped)


def _gauge(name: str, text: str, value: float) -> Metric:
    made = GaugeMetricFamily(name, text)
    made.add_metric([], value)
    return made


def _counter(name: str, text: str, value: float) -> Metric:
    made = CounterMetricFamily(name, text)
    made.add_metric([], value)
    return made
