"""Whether a run is over, and how it ended. Pure: the launcher says how things stand."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How a run ended."""

    COMPLETE = "Complete"
    FAILED = "Failed"
    INTERRUPTED = "Interrupted"


@dataclass(frozen=True, slots=True)
class End:
    """How a run ended, and why."""

    state: State
    why: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the coordinator says of the job: complete or failed, and why."""

    complete: bool
    why: str


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long and how often."""

    startup_seconds: float
    run_seconds: float | None
    failures: int
    finish_seconds: float = 300.0
    """How long a worker may go on once the job is complete: to save its model, say."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a run stands."""

    seconds: float
    started: bool
    """True once a generation was entered."""

    running: int
    """Processes that are there; after the end of the job, those that took part in it."""

    coming: int
    """Workers that will be started, or started again."""

    failures: int
    last_failure: str = ""
    """What the last failed worker did, with the end of its output."""

    late_failure: str = ""
    """What a worker did that failed after the job was complete."""

    verdict: Verdict | None = None
    verdict_age: float = 0.0
    words: str = ""
    """The end of some worker's output, for a job that never began."""


def end_of(standing: Standing, bounds: Bounds) -> End | None:
    """Return the end of a run, or none if it goes on."""
    if standing.verdict is not None and not standing.verdict.complete:
        return End(State.FAILED, standing.verdict.why)
    if bounds.run_seconds is not None and standing.seconds >= bounds.run_seconds:
        return End(State.FAILED, f"the job was not complete after {bounds.run_seconds:g} s")
    if standing.verdict is not None:
        return _finished(standing.verdict.why, standing, bounds)
    if standing.failures > bounds.failures:
        return End(State.FAILED, _too_many(standing, bounds))
    if standing.running == 0 and standing.coming == 0:
        return End(State.FAILED, _and("all workers are gone, and none comes back", standing.last_failure))
    if not standing.started and standing.seconds >= bounds.startup_seconds:
        why = f"no generation was formed within {bounds.startup_seconds:g} s (startupDeadlineSeconds)"
        return End(State.FAILED, _and(why, standing.words))
    return None


def _finished(why: str, standing: Standing, bounds: Bounds) -> End | None:
    """Return the end of a job that the coordinator holds to be complete, once its workers have exited."""
    if standing.running and standing.verdict_age >= bounds.finish_seconds:
        return End(State.FAILED, f"the job is complete, but after {bounds.finish_seconds:g} s workers have not exited")
    if standing.running:
        return None
    if standing.late_failure:
        return End(State.FAILED, f"all samples are committed, but {standing.late_failure}")
    return End(State.COMPLETE, why)


def _too_many(standing: Standing, bounds: Bounds) -> str:
    why = f"{standing.failures} failures of workers are more than restart.maxFailures allows, {bounds.failures}"
    return _and(why, standing.last_failure)


def _and(why: str, more: str) -> str:
    return f"{why}: {more}" if more else why
