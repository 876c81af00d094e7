"""Jobs' numbers for Prometheus, read from snapshots when asked for, so that workers that are gone leave nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from .refusals import Refusal
from .view import JobView, MemberState

Views = Mapping[tuple[str, ...], JobView]
"""Jobs by the values of the labels that tell them apart."""

Refused = dict[tuple[str, ...], Mapping[str, int]]
"""What was refused, by the same values and by kind."""

_GAUGES: dict[str, tuple[str, Callable[[JobView], float]]] = {
    "omnilearn_imbalance": ("Part of a step that members wait for the slowest.", lambda view: view.imbalance),
    "omnilearn_generation": ("Number of the current set of members.", lambda view: view.generation or 0),
    "omnilearn_step": ("Steps committed.", lambda view: view.step),
    "omnilearn_samples": ("Samples committed.", lambda view: view.samples),
}
_COUNTERS: dict[str, tuple[str, Callable[[JobView], float]]] = {
    "omnilearn_regroups": ("Generations formed after the first.", lambda view: view.regroups),
    "omnilearn_plan_changes": ("Plans that the control law has changed.", lambda view: view.plan_changes),
}


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
        yield from series({(view.job,): view}, ("job",))


def series(views: Views, labels: tuple[str, ...], strays: Refused | None = None) -> Iterator[Metric]:
    """Yield the series of some jobs; ``labels`` name what their keys consist of; ``strays`` belong to no job."""
    for name, (text, value) in _GAUGES.items():
        gauge = GaugeMetricFamily(name, text, labels=labels)
        for key, view in views.items():
            gauge.add_metric(key, value(view))
        yield gauge
    for name, (text, value) in _COUNTERS.items():
        counter = CounterMetricFamily(name, text, labels=labels)
        for key, view in views.items():
            counter.add_metric(key, value(view))
        yield counter
    logged = GaugeMetricFamily("omnilearn_logged", "Newest values that the script logged.", labels=(*labels, "name"))
    for key, view in views.items():
        for name, number in view.logged.items():
            logged.add_metric((*key, name), number)
    yield logged
    yield _refused({key: view.bad_requests for key, view in views.items()} | (strays or {}), labels)
    yield from _of_members(views, (*labels, "worker"))


def _refused(counts: Refused, labels: tuple[str, ...]) -> Metric:
    """Return what was refused, by kind; also those that never were, because an increase begins at 0."""
    counter = CounterMetricFamily(
        "omnilearn_bad_requests", "Messages and connections refused.", labels=(*labels, "kind")
    )
    for key, of in counts.items():
        for kind in Refusal:
            counter.add_metric((*key, kind), of.get(kind, 0))
    return counter


def _of_members(views: Views, labels: tuple[str, ...]) -> Iterator[Metric]:
    share = GaugeMetricFamily("omnilearn_share", "Samples of a step that the plan gives to the worker.", labels=labels)
    speed = GaugeMetricFamily("omnilearn_samples_per_second", "Speed of the worker alone.", labels=labels)
    seconds = GaugeMetricFamily("omnilearn_step_seconds", "Mean time of a step.", labels=labels)
    for key, view in views.items():
        for member in (each for each in view.members if each.state is not MemberState.LOST):
            share.add_metric((*key, member.worker), member.share)
            speed.add_metric((*key, member.worker), member.samples_per_second)
            seconds.add_metric((*key, member.worker), member.step_seconds)
    yield from (share, speed, seconds)
