"""The numbers of all jobs for Prometheus, and of the operator itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from omnilearn_coordinator.metrics import series
from omnilearn_coordinator.view import JobView

from .registry import Key, Registry


@dataclass(frozen=True, slots=True)
class Shown:
    """What an operator that leads shows."""

    registry: Registry
    views: Callable[[], Iterator[tuple[Key, JobView]]]
    retries: int
    refused: Mapping[str, int]
    """What was refused, by kind, that belongs to no job."""


class OperatorMetrics(Collector):
    """The series of the operator, read when asked for: jobs that are gone leave nothing; who does not lead has none."""

    def __init__(self, shown: Callable[[], Shown | None], reigns: Callable[[], int]) -> None:
        self._shown, self._reigns = shown, reigns
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._registry.register(self)

    def text(self) -> bytes:
        """Return all series in Prometheus' text format."""
        return generate_latest(self._registry)

    def describe(self) -> list[Metric]:
        """Describe nothing in advance: a registry asks for it when it starts."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the series as they are now."""
        shown = self._shown()
        leads = GaugeMetricFamily("omnilearn_leads", "1 if this replica leads, else 0.")
        leads.add_metric([], 0 if shown is None else 1)
        yield leads
        reigns = CounterMetricFamily("omnilearn_reigns", "How often this replica has begun to lead.")
        reigns.add_metric([], self._reigns())
        yield reigns
        if shown is not None:
            yield from _of_jobs(shown)


def _of_jobs(shown: Shown) -> Iterator[Metric]:
    jobs = GaugeMetricFamily("omnilearn_jobs", "Jobs by phase.", labels=["phase"])
    phases: dict[str, int] = {}
    for job in shown.registry.jobs.values():
        phase = str(job.status.phase) if job.status is not None and job.status.phase is not None else "Pending"
        phases[phase] = phases.get(phase, 0) + 1
    for phase, count in phases.items():
        jobs.add_metric([phase], count)
    yield jobs
    retries = CounterMetricFamily("omnilearn_reconcile_retries", "Looks at a job that failed and were repeated.")
    retries.add_metric([], shown.retries)
    yield retries
    yield from series(
        {tuple(key): view for key, view in shown.views()}, ("namespace", "job"), {("", ""): shown.refused}
    )
