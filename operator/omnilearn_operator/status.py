"""What `kubectl get` and `describe` show of a job: from how it stands to its status. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from omnilearn_coordinator.view import JobView, MemberState, MemberView, Phase
from omnilearn_core.api import names
from omnilearn_core.api.job import OmniLearnJob
from omnilearn_core.api.names import ConditionType
from omnilearn_core.api.status import (
    Condition,
    ConditionStatus,
    DecisionStatus,
    JobStatus,
    MemberStatus,
    WorkerCounts,
)

from .book import Book
from .conditions import Facts, phase_of, with_times
from .observed import Pod
from .pace import Pace

_MOST_MEMBERS, _MOST_DECISIONS, _MOST_LOGGED = 64, 10, 32
# As many as a job may have workers; those that came first may be of groups that are gone.
_MOST_ATTEMPTS = 16384
_LONGEST_SENTENCE = 1024

_ENTERED = (Phase.RUNNING, Phase.REGROUPING, Phase.COMPLETE)

# News is written at once; a step more is not news.
_NEWS_SECONDS = 1.0
_NEWS = (
    "phase", "conditions", "workers", "attempts", "start_time", "completion_time", "observed_generation", "strategy",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Seen:
    """A job and what is there of it, at one moment."""

    job: OmniLearnJob
    pods: tuple[Pod, ...]
    view: JobView | None
    """How its coordinator sees it, if it has one."""

    now: datetime
    pace: Pace = field(default_factory=Pace)


_ONLY_WHILE_TRAINING = {
    "members", "samples_per_second", "imbalance_percent", "estimated_completion", "local_steps", "max_staleness",
}  # fmt: skip


def status_of(seen: Seen, book: Book, facts: Facts) -> JobStatus:
    """Return the status of a job; of what nobody knows now, it says what it said before."""
    job, view, now, before = seen.job, seen.view, seen.now, book.status
    phase = phase_of(facts, started=book.started is not None)
    status = JobStatus(
        phase=phase,
        conditions=with_times(facts, before.conditions, job.metadata.generation, now),
        observed_generation=job.metadata.generation,
        start_time=None if book.started is None else book.started.replace(microsecond=0),
        suspended_seconds=suspended_seconds(seen, book) or None,
        completion_time=before.completion_time
        or (now.replace(microsecond=0) if phase in ("Complete", "Failed") else None),
        workers=_counts(seen, book),
        attempts=dict([*book.attempts.items()][-_MOST_ATTEMPTS:]),
        selector=f"{names.JOB_LABEL}={job.metadata.name}",
    )
    forgotten = set(status.model_fields_set) | (set() if phase == "Running" else _ONLY_WHILE_TRAINING)
    kept = {name: getattr(before, name) for name in JobStatus.model_fields if name not in forgotten}
    progress = {} if view is None else _progress(view, now)
    return status.model_copy(update=kept | {name: value for name, value in progress.items() if name not in forgotten})


def members_in(view: JobView | None) -> list[MemberView]:
    """Return the members that take part now."""
    if view is None or view.phase not in _ENTERED:
        return []
    return [member for member in view.members if member.state is not MemberState.LOST]


def member_count(seen: Seen, book: Book) -> int:
    """Return how many train; an operator, or a coordinator, that has just started believes its predecessor for a while.

    But not of workers whose pods do not run.
    """
    counts, running = book.status.workers, sum(pod.running and not pod.over for pod in seen.pods)
    fresh = (seen.now - (book.heard or book.since)).total_seconds() < seen.pace.takeover
    unheard = seen.view is None or seen.view.generation is None
    return min(counts.members, running) if fresh and unheard and counts is not None else len(members_in(seen.view))


def suspended_seconds(seen: Seen, book: Book) -> int:
    """Return how long a job was suspended since its first step; the present time is added when it goes on."""
    before, so_far = book.status, book.status.suspended_seconds or 0
    since = next((each.last_transition_time for each in before.conditions if _is_suspended(each)), None)
    if since is None or book.started is None or seen.job.spec.suspend:
        return so_far
    return so_far + max(0, int((seen.now - max(since, book.started)).total_seconds()))


def _is_suspended(condition: Condition) -> bool:
    return condition.type == ConditionType.SUSPENDED and condition.status is ConditionStatus.TRUE


def due_in(before: JobStatus, after: JobStatus, written: datetime | None, seen: Seen, *, unsure: bool) -> float | None:
    """Return in how many seconds a status should be written; None if there is nothing new in it.

    Never more than one a second, whatever has happened; ``unsure`` if the last one may not have arrived.
    """
    if before == after and not unsure:
        return None
    news = unsure or any(getattr(before, name) != getattr(after, name) for name in _NEWS)
    pause = _NEWS_SECONDS if news else seen.pace.status
    return 0.0 if written is None else max(0.0, pause - (seen.now - written).total_seconds())


def patch_of(before: JobStatus | None, after: JobStatus) -> dict[str, Any]:
    """Return the merge patch from one status to another, or from one that nobody knows: what is gone is null."""
    new = after.to_manifest()
    if before is None:
        aliases = [field.alias or name for name, field in JobStatus.model_fields.items()]
        return {alias: new.get(alias) for alias in aliases}
    old = before.to_manifest()
    changed = {key: value for key, value in new.items() if old.get(key) != value}
    for key in ("attempts", "logged"):  # maps are merged: name what is gone
        if key in changed:
            changed[key] = dict.fromkeys(old.get(key, {})) | changed[key]
    return changed | {key: None for key in old if key not in new}


def _counts(seen: Seen, book: Book) -> WorkerCounts:
    desired = 0 if seen.job.spec.suspend else seen.job.spec.most
    ready = sum(pod.running and not pod.over for pod in seen.pods)
    return WorkerCounts(
        desired=desired,
        ready=ready,
        members=member_count(seen, book),
        preemptions=book.preemptions,
        failures=book.failures,
        summary=f"{ready}/{desired}",
    )


def _progress(view: JobView, now: datetime) -> dict[str, Any]:
    """Return what a coordinator knows: nothing, until a worker has reported to it."""
    members = members_in(view)
    found: dict[str, Any] = {}
    if view.generation is not None and members:
        found |= {
            "generation": view.generation,
            "members": [_member(each) for each in _slowest(members)],
            "samples_per_second": _rounded(view.samples_per_second),
            "imbalance_percent": min(100, max(0, round(100 * view.imbalance))),
        }
        found |= _by_strategy(members)
    if view.samples:
        found |= {"step": view.step, "rounds": view.rounds, "epoch": view.epoch, **_towards_the_end(view, now)}
    if view.outcome is not None and view.outcome.complete:
        # The last steps come with the end, not with a report.
        done = view.outcome.done.values()
        last = max((each.steps for each in done), default=view.step)
        rounds = max((each.round for each in done), default=view.rounds)
        found |= {"step": last, "rounds": rounds, "progress_percent": 100}
    if view.choice is not None:
        found["strategy"] = view.choice
    if view.decisions:
        found["decisions"] = [
            DecisionStatus(time=_moment(each.time), why=each.why[:_LONGEST_SENTENCE])
            for each in view.decisions[-_MOST_DECISIONS:]
        ]
    if view.logged:
        found["logged"] = {name: _rounded(value) for name, value in list(view.logged.items())[:_MOST_LOGGED]}
    return found


def _by_strategy(members: Sequence[MemberView]) -> dict[str, Any]:
    """Return what only some strategies have."""
    found: dict[str, Any] = {}
    if steps := [each.local_steps for each in members if each.local_steps]:
        low, high = min(steps), max(steps)
        found["local_steps"] = str(low) if low == high else f"{low}-{high}"
    if stale := [each.most_stale for each in members if each.staleness is not None]:
        found["max_staleness"] = max(stale)
    return found


def _towards_the_end(view: JobView, now: datetime) -> dict[str, Any]:
    if not view.total_samples:
        return {}
    found: dict[str, Any] = {"progress_percent": min(100, 100 * view.samples // view.total_samples)}
    speed = view.samples_per_second
    if speed > 0:
        left = max(0, view.total_samples - view.samples) / speed
        # To the minute: an estimate that changes with every look says less.
        end = now + timedelta(seconds=min(left, 3.0e8) + 30)
        found["estimated_completion"] = end.replace(second=0, microsecond=0)
    return found


def _slowest(members: Sequence[MemberView]) -> list[MemberView]:
    chosen = sorted(members, key=lambda each: (each.samples_per_second, each.worker))[:_MOST_MEMBERS]
    return sorted(chosen, key=lambda each: each.worker)


def _member(member: MemberView) -> MemberStatus:
    return MemberStatus(
        worker=member.worker,
        attempt=member.attempt,
        device=member.device,
        share=member.share,
        samples_per_second=_rounded(member.samples_per_second),
        step_milliseconds=_rounded(1000 * (member.compute_seconds + member.tail_seconds)),
        local_steps=member.local_steps or None,
        staleness=None if member.staleness is None else _rounded(member.staleness),
        max_staleness=None if member.staleness is None else member.most_stale,
    )


def _rounded(number: float) -> float:
    return float(f"{number:.3g}")


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)
