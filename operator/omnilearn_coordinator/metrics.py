"""A job's numbers for Prometheus, read from a snapshot when asked for, so that workers that are gone leave nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from .view import JobView, MemberState


class Metrics(Collector):
    """The series of one job, in a registry of its own."""

    def __init__(self, view: Callable[[], JobView]) -> None:
        self._view = view
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self) -> bytes:
        """Return all series in Prometheus' text format."""
        return generate_latest(self._registry)

    def describe(self) -> list[Metric]:
        """Describe nothing in advance: a registry asks for it when it starts."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the series as they are now."""
        view = self._view()
        yield from self._of_the_job(view)
        yield from self._of_members(view)

    @staticmethod
    def _of_the_job(view: JobView) -> Iterator[Metric]:
        gauges = {
            "omnilearn_imbalance": ("Part of a step that members wait for the slowest.", view.imbalance),
            "omnilearn_generation": ("Number of the current set of members.", view.generation or 0),
            "omnilearn_step": ("Steps committed.", view.step),
        }
        counters = {
            "omnilearn_regroups": ("Generations formed after the first.", view.regroups),
            "omnilearn_plan_changes": ("Plans that the control law has changed.", view.plan_changes),
            "omnilearn_bad_requests": ("Messages and connections that were refused.", view.bad_requests),
        }
        for name, (text, value) in gauges.items():
            gauge = GaugeMetricFamily(name, text, labels=["job"])
            gauge.add_metric([view.job], value)
            yield gauge
        for name, (text, value) in counters.items():
            counter = CounterMetricFamily(name, text, labels=["job"])
            counter.add_metric([view.job], value)
            yield counter
        logged = GaugeMetricFamily("omnilearn_logged", "Newest values that the script logged.", labels=["job", "name"])
        for name, value in view.logged.items():
            logged.add_metric([view.job, name], value)
        yield logged

    @staticmethod
    def _of_members(view: JobView) -> Iterator[Metric]:
        labels = ["job", "worker"]
        share = GaugeMetricFamily(
            "omnilearn_share", "Samples of a step that the plan gives to the worker.", labels=labels
        )
        speed = GaugeMetricFamily("omnilearn_samples_per_second", "Speed of the worker alone.", labels=labels)
        seconds = GaugeMetricFamily("omnilearn_step_seconds", "Mean time of a step.", labels=labels)
        for member in (m for m in view.members if m.state is not MemberState.LOST):
            share.add_metric([view.job, member.worker], member.share)
            speed.add_metric([view.job, member.worker], member.samples_per_second)
            seconds.add_metric([view.job, member.worker], member.step_seconds)
        yield from (share, speed, seconds)
