"""What a job's conditions say: from how it stands to sentences. Pure; the cluster is asked and told elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from omnilearn_core.api.job import OmniLearnJob
from omnilearn_core.api.names import ConditionType, Reason
from omnilearn_core.api.status import Condition, ConditionStatus, Phase

from .observed import Pod

_LONGEST = 4000
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Standing:
    """How a job stands."""

    now: datetime
    since: datetime
    """When it was created, or went on after it was suspended."""

    started: datetime | None = None
    """When its first step was committed."""

    suspended: int = 0
    """How many seconds it was suspended since then."""

    members: int = 0
    pods: tuple[Pod, ...] = ()
    failures: int = 0
    last_failure: str = ""
    complete: str = ""
    """What the coordinator says of a job that is complete."""

    finishing: bool = False
    """All samples are committed, and the workers are about to end."""

    failed: str = ""
    """What the coordinator says of a job that cannot go on."""

    bad_template: str = ""
    """What the API server says of a pod that it will never take."""

    refused: str = ""
    """What it says of a pod that it does not take now: a quota, a policy."""

    pauses: tuple[tuple[str, datetime], ...] = ()
    """Workers whose next attempt has to wait, and until when."""

    rollout: str = ""
    """How far another template has come; nothing if all pods are of the newest."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A condition without its time."""

    holds: bool
    reason: Reason | str
    """One of ours; or, of a job that another version has ended, one of its."""

    message: str = ""


Facts = Mapping[ConditionType, Fact]


def facts_of(job: OmniLearnJob, standing: Standing) -> Facts:
    """Return what is so and what is not; an end, once there is one, is for good."""
    ended = _earlier_end(job) or _end(job, standing)
    if ended is not None:
        kind, fact = ended
        return {kind: fact, ConditionType.READY: Fact(False, fact.reason, "the job has ended")}
    if job.spec.suspend:
        why = "spec.suspend is true: set it to false to go on"
        suspended = Fact(True, Reason.SUSPENDED_BY_USER, why)
        return {ConditionType.SUSPENDED: suspended, ConditionType.READY: Fact(False, Reason.SUSPENDED_BY_USER, why)}
    ready = _ready(job, standing)
    facts = {ConditionType.READY: ready, ConditionType.DEGRADED: _degraded(job, standing, ready=ready.holds)}
    if _condition(job, ConditionType.SUSPENDED) is not None:
        facts[ConditionType.SUSPENDED] = Fact(False, ready.reason)
    return facts


def phase_of(facts: Facts, *, started: bool) -> Phase:
    """Return where a job stands in one word."""
    holds = {kind for kind, fact in facts.items() if fact.holds}
    for kind, phase in (
        (ConditionType.COMPLETE, Phase.COMPLETE),
        (ConditionType.FAILED, Phase.FAILED),
        (ConditionType.SUSPENDED, Phase.SUSPENDED),
        (ConditionType.READY, Phase.RUNNING),
    ):
        if kind in holds:
            return phase
    return Phase.WAITING if started else Phase.PENDING


def with_times(facts: Facts, before: Sequence[Condition], generation: int | None, now: datetime) -> list[Condition]:
    """Return the facts as conditions: since when is kept as long as the answer stays the same."""
    known = {condition.type: condition for condition in before}
    return [
        Condition(
            type=str(kind),
            status=ConditionStatus.TRUE if fact.holds else ConditionStatus.FALSE,
            reason=str(fact.reason),
            message=fact.message[:_LONGEST],
            last_transition_time=_since(known.get(str(kind)), fact, now),
            observed_generation=generation,
        )
        for kind, fact in facts.items()
    ]


def _since(before: Condition | None, fact: Fact, now: datetime) -> datetime:
    same = before is not None and (before.status is ConditionStatus.TRUE) == fact.holds
    return before.last_transition_time if same and before is not None else now.replace(microsecond=0)


def _condition(job: OmniLearnJob, kind: ConditionType) -> Condition | None:
    conditions = [] if job.status is None else job.status.conditions
    return next((each for each in conditions if each.type == kind), None)


def _earlier_end(job: OmniLearnJob) -> tuple[ConditionType, Fact] | None:
    for kind in (ConditionType.COMPLETE, ConditionType.FAILED):
        condition = _condition(job, kind)
        if condition is not None and condition.status is ConditionStatus.TRUE:
            return kind, Fact(True, condition.reason, condition.message)
    return None


def _end(job: OmniLearnJob, standing: Standing) -> tuple[ConditionType, Fact] | None:
    if standing.complete:
        return ConditionType.COMPLETE, Fact(True, Reason.ALL_SAMPLES_COMMITTED, standing.complete)
    failed = _failure(job, standing)
    return None if failed is None else (ConditionType.FAILED, failed)


def _failure(job: OmniLearnJob, standing: Standing) -> Fact | None:
    spec = job.spec
    if standing.failed:
        return Fact(True, Reason.SCRIPT_FAILED, standing.failed)
    if standing.failures > spec.restart.max_failures:
        why = f"{standing.failures} failures of workers are more than restart.maxFailures, {spec.restart.max_failures}"
        return Fact(True, Reason.TOO_MANY_FAILURES, f"{why}; the last: {standing.last_failure or 'unknown'}")
    if spec.suspend:
        return None
    if standing.started is None:
        if standing.members < spec.fewest and _over(standing.since, spec.startup_deadline_seconds, standing.now):
            why = f"fewer than {spec.fewest} workers were there within {spec.startup_deadline_seconds} s"
            return Fact(True, Reason.STARTUP_DEADLINE_EXCEEDED, f"{why} (startupDeadlineSeconds)" + _why_not(standing))
    elif spec.active_deadline_seconds and _over(
        standing.started, spec.active_deadline_seconds + standing.suspended, standing.now
    ):
        why = f"the job was not complete {spec.active_deadline_seconds} s after its first step (activeDeadlineSeconds)"
        paused = f", not counting {standing.suspended} s in which it was suspended" if standing.suspended else ""
        return Fact(True, Reason.ACTIVE_DEADLINE_EXCEEDED, why + paused)
    return None


def _over(since: datetime, seconds: int, now: datetime) -> bool:
    return now - since >= timedelta(seconds=seconds)


def _ready(job: OmniLearnJob, standing: Standing) -> Fact:
    if standing.finishing:
        return Fact(True, Reason.ENOUGH_WORKERS, "all samples are committed, the workers are about to end")
    if standing.members >= job.spec.fewest:
        return Fact(True, Reason.ENOUGH_WORKERS, f"{standing.members} workers train")
    untaken = _untaken(standing)
    if untaken is not None:
        return Fact(False, *untaken)
    why = f"{standing.members} of the {job.spec.fewest} workers that are needed train"
    held = f"; {standing.rollout}" if standing.rollout else ""
    return Fact(False, Reason.WAITING_FOR_WORKERS, why + _trouble(standing) + held)


def _degraded(job: OmniLearnJob, standing: Standing, *, ready: bool) -> Fact:
    if not ready or standing.finishing:
        return Fact(False, Reason.ENOUGH_WORKERS if ready else Reason.WAITING_FOR_WORKERS)
    fewer = ""
    if standing.members < job.spec.most:
        fewer = f"{standing.members} of the {job.spec.most} workers that are wanted train"
    untaken = _untaken(standing)
    if untaken is not None:
        reason, why = untaken
        return Fact(True, reason, "; ".join(filter(None, (fewer, why, standing.rollout))))
    fewer += _trouble(standing) if fewer else ""
    if standing.rollout:
        return Fact(True, Reason.ROLLING_OUT, "; ".join(filter(None, (standing.rollout, fewer))))
    return Fact(True, Reason.FEWER_WORKERS_THAN_WANTED, fewer) if fewer else Fact(False, Reason.ENOUGH_WORKERS)


def _untaken(standing: Standing) -> tuple[Reason, str] | None:
    """Say that the API server does not take a pod that is wanted, for good or for the time being."""
    if standing.bad_template:
        return Reason.BAD_TEMPLATE, f"the API server does not take the pod: {standing.bad_template}"
    if standing.refused:
        return Reason.POD_REFUSED, f"the API server does not take the pod now: {standing.refused}"
    return None


def _why_not(standing: Standing) -> str:
    """Say why workers did not come."""
    said = standing.bad_template or standing.refused
    return f"; the API server does not take the pod: {said}" if said else _trouble(standing)


def _trouble(standing: Standing) -> str:
    """Say which pods do not come, and why: a few of them stand for all."""
    stuck = [f"{pod.name}: {pod.stuck}" for pod in standing.pods if pod.stuck and not pod.over]
    pauses = [f"{name} is tried again at {until:%H:%M:%S} UTC" for name, until in standing.pauses]
    said = _named(stuck) + _named(pauses)
    failure = f"; the last failure: {standing.last_failure}" if standing.last_failure and not stuck else ""
    return said + failure


def _named(sentences: Sequence[str]) -> str:
    more = f" and {len(sentences) - _MOST_NAMED} more" if len(sentences) > _MOST_NAMED else ""
    return "; " + ", ".join(sentences[:_MOST_NAMED]) + more if sentences else ""
