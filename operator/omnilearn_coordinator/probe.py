"""Auto's choice: from what the members have measured, by the model of `omnilearn simulate`. No clock and no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from omnilearn_core.api.messages import Plan, WorkerReport
from omnilearn_core.api.strategy import Choice, StrategyType
from omnilearn_core.control.shares import ImpossibleSplitError
from omnilearn_core.simulate.choice import Chosen, choose
from omnilearn_core.simulate.cluster import SimulatedWorker
from omnilearn_core.simulate.strategies import Network, Question

from .membership.generation import Generation
from .settings import JobSettings

# Shares have converged if the plan has stood for so many pauses between reports; whether or not, it is chosen so many
# seconds after everybody has measured an exchange.
_SETTLED_REPORTS = 3.0
_LONGEST_SECONDS = 10.0

# A gain like this is taken without waiting for shares to settle: it is twice as far from nothing as the least one.
_CLEAR_GAIN = 1.5

# What a worker can claim is anything; the model needs numbers that it can divide by.
_SHORTEST, _LONGEST = 1e-6, 1e6


class Probe:
    """Waits until the measurements of one generation are worth a choice."""

    def __init__(self, settings: JobSettings) -> None:
        self._settings = settings
        self._plan: tuple[str, int] = ("", 0)
        self._since = 0.0
        self._begun: float | None = None

    def look(
        self,
        generation: Generation,
        plan: Plan,
        measured: Mapping[str, WorkerReport],
        now: float,
        report_seconds: float = 1.0,
    ) -> Choice | None:
        """Return what to go on with, if it is time to choose: there are others to exchange with, and all know how."""
        standing = (str(plan.generation), plan.version)
        if standing[0] != self._plan[0]:
            self._begun = None
        if standing != self._plan:
            self._plan, self._since = standing, now
        reports = [measured[name] for name in generation.names if name in measured]
        known = [each for each in reports if each.generation == generation.id and each.exchange_seconds is not None]
        if not generation.is_entered or len(known) < max(2, len(generation.names)):
            return None
        self._begun = now if self._begun is None else self._begun
        settled = all(each.plan_version == plan.version for each in known)
        settled = settled and now - self._since >= _SETTLED_REPORTS * report_seconds
        chosen = chosen_by(self._settings, known)
        if not settled and now - self._begun < _LONGEST_SECONDS and chosen.gain < _CLEAR_GAIN:
            return None
        return Choice(type=StrategyType(chosen.strategy), interval=chosen.interval, why=chosen.why[:1024])


def known_by(report: WorkerReport, before: WorkerReport | None) -> WorkerReport | None:
    """Return what is known of a worker by a report: if it has no steps, only how long an exchange takes is new."""
    if report.steps:
        return report
    if before is None or before.generation != report.generation or report.exchange_seconds is None:
        return before
    times = {"exchange_seconds": report.exchange_seconds, "team_exchange_seconds": report.team_exchange_seconds}
    return before.model_copy(update=times)


def chosen_by(settings: JobSettings, reports: Sequence[WorkerReport]) -> Chosen:
    """Return what the model says of workers that have measured this."""
    try:
        return choose(question_of(settings, reports))
    except ImpossibleSplitError as error:
        return Chosen(StrategyType.SYNCHRONOUS, 1, 1.0, f"{error}")


def question_of(settings: JobSettings, reports: Sequence[WorkerReport]) -> Question:
    """Return the model's question, with speeds and a network that are as measured."""
    exchange = _usual([each.exchange_seconds or 0.0 for each in reports])
    # Whoever is last waits for nobody: what others have more in the first steps is waiting, which nothing would save.
    exposed = min(each.reduce_seconds for each in reports)
    count = len(reports)
    return Question(
        global_batch=settings.global_batch,
        workers=_workers(settings, reports),
        # Whatever a model's size is: a network that needs so long for it.
        model_bytes=1.0,
        network=Network(2 * (count - 1) / count / exchange),
        inside_seconds=_inside(settings, reports),
        hidden_seconds=max(0.0, exchange - exposed),
    )


def _workers(settings: JobSettings, reports: Sequence[WorkerReport]) -> tuple[SimulatedWorker, ...]:
    speeds = [_speed(each) for each in reports]
    # Who has no share has shown no speed.
    slowest = min((speed for speed in speeds if speed), default=1.0)
    return tuple(
        SimulatedWorker(
            report.worker,
            speed or slowest,
            group=settings.group_of(report.worker).name,
            minimum=settings.min_per_worker,
            maximum=settings.max_per_worker,
        )
        for report, speed in zip(reports, speeds, strict=True)
    )


def _speed(report: WorkerReport) -> float:
    return report.share / min(max(report.compute_seconds, _SHORTEST), _LONGEST)


def _inside(settings: JobSettings, reports: Sequence[WorkerReport]) -> float:
    """Return how long an exchange takes inside of the slowest group."""
    groups: dict[str, list[float]] = {}
    for report in reports:
        groups.setdefault(settings.group_of(report.worker).name, []).append(report.team_exchange_seconds or 0.0)
    return max(_usual(times) if len(times) > 1 else 0.0 for times in groups.values())


def _usual(times: Sequence[float]) -> float:
    return min(max(median(times), _SHORTEST), _LONGEST)
