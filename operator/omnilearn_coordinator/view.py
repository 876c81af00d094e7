"""What people and programs see of a running job: a snapshot without references to anything that changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from omnilearn_core.api.messages import WorkerReport
from omnilearn_core.api.strategy import Choice

from .membership.generation import Generation, Worker
from .membership.state import Outcome, State

# Nobody computes so fast: a time below this says nothing about a speed.
_LEAST_SECONDS = 1e-9


class Phase(StrEnum):
    """Where the job stands, in one word."""

    WAITING = "Waiting"
    STARTING = "Starting"
    RUNNING = "Running"
    REGROUPING = "Regrouping"
    COMPLETE = "Complete"
    FAILED = "Failed"


class MemberState(StrEnum):
    """What a member is doing."""

    BUILDING = "building"
    ENTERING = "entering"
    TRAINING = "training"
    LEAVING = "leaving"
    DONE = "done"
    LOST = "lost"


class TimedDecision(NamedTuple):
    """A decision of the control law, with the time of day in seconds since 1970."""

    time: float
    why: str


@dataclass(frozen=True, slots=True)
class MemberView:
    """One member and how it does. Times are means per step, of its last report that measured any."""

    worker: str
    device: str
    attempt: int
    state: MemberState
    share: int = 0
    samples_per_second: float = 0.0
    compute_seconds: float = 0.0
    load_seconds: float = 0.0
    reduce_seconds: float = 0.0
    wait_seconds: float = 0.0
    step_seconds: float = 0.0
    cpu_quota: float | None = None
    memory_bound: int | None = None
    tail_samples: float = 0.0
    tail_seconds: float = 0.0
    local_steps: int = 0
    staleness: float | None = None
    """Mean delay of its gradients, in updates, if there is a server."""

    most_stale: int = 0


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as it is now."""

    job: str
    phase: Phase
    generation: int | None
    plan: int | None
    """Version of the plan that counts."""

    members: tuple[MemberView, ...]
    joiners: tuple[str, ...]
    waiting: str | None
    regroups: int
    plan_changes: int
    bad_requests: Mapping[str, int]
    """What was refused, by kind."""

    decisions: tuple[TimedDecision, ...]
    outcome: Outcome | None
    choice: Choice | None = None
    """What Auto has chosen."""

    step: int = 0
    rounds: int = 0
    epoch: int = 0
    samples: int = 0
    total_samples: int | None = None
    skipped: int = 0
    loss: float | None = None
    logged: Mapping[str, float] = field(default_factory=dict)

    def with_progress(self, report: WorkerReport, loss: float | None, logged: Mapping[str, float]) -> JobView:
        """Return the view with how far the job has come, from the report of the highest step."""
        return replace(
            self,
            step=report.step,
            rounds=report.rounds,
            epoch=report.epoch,
            samples=report.samples,
            total_samples=report.total_samples,
            skipped=report.skipped,
            loss=loss,
            logged=dict(logged),
        )

    @property
    def imbalance(self) -> float:
        """How long the members wait for the slowest, as a part of its computing time; 0 if nothing was measured."""
        times = [member.compute_seconds + member.tail_seconds for member in self.members if member.compute_seconds > 0]
        return 1.0 - sum(times) / len(times) / max(times) if times else 0.0

    @property
    def samples_per_second(self) -> float:
        """Speed of all members together; where nobody waits for others, each has its own pace."""
        if any(member.staleness is not None for member in self.members):
            return sum(member.share / member.step_seconds for member in self.members if member.step_seconds > 0)
        longest = max((member.step_seconds for member in self.members), default=0.0)
        return (
            sum(member.share + member.tail_samples for member in self.members) / longest
            if longest > _LEAST_SECONDS
            else 0.0
        )


def phase_of(state: State) -> Phase:
    """Return where the job stands."""
    if state.outcome is not None:
        return Phase.COMPLETE if state.outcome.complete else Phase.FAILED
    newest, standing = state.newest, state.standing
    if newest is None or state.waiting is not None:
        return Phase.WAITING
    if standing is None:
        return Phase.STARTING
    if not standing.is_entered or state.missing(standing) or standing.broken is not None:
        return Phase.REGROUPING
    return Phase.RUNNING


def members_of(state: State, shares: Mapping[str, int], measured: Mapping[str, WorkerReport]) -> tuple[MemberView, ...]:
    """Return the members of the standing generation, or of the first one that is being formed."""
    generation = state.standing or state.newest
    if generation is None:
        return ()
    return tuple(
        _member(m.worker, m.device, m.attempt, _doing(state.workers.get(m.worker), generation, m.attempt),
                shares.get(m.worker, 0), measured.get(m.worker))
        for m in generation.members
    )  # fmt: skip


def _member(
    worker: str, device: str, attempt: int, state: MemberState, share: int, report: WorkerReport | None
) -> MemberView:
    if report is None:
        return MemberView(worker, device, attempt, state, share)
    return MemberView(
        worker=worker,
        device=device,
        attempt=attempt,
        state=state,
        share=share or report.share,
        samples_per_second=report.share / report.compute_seconds if report.compute_seconds > _LEAST_SECONDS else 0.0,
        compute_seconds=report.compute_seconds,
        tail_samples=report.tail_samples,
        tail_seconds=report.tail_seconds,
        load_seconds=report.load_seconds,
        reduce_seconds=report.reduce_seconds,
        wait_seconds=report.wait_seconds,
        step_seconds=report.step_seconds,
        cpu_quota=report.cpu_quota,
        memory_bound=report.memory_bound,
        local_steps=report.local_steps,
        staleness=report.staleness,
        most_stale=report.most_stale,
    )


def _doing(worker: Worker | None, generation: Generation, attempt: int) -> MemberState:
    if worker is None or worker.attempt != attempt or not worker.active:
        return MemberState.LOST
    if worker.done is not None and worker.done.generation == generation.id:
        return MemberState.DONE
    if worker.leaving:
        return MemberState.LEAVING
    if worker.name in generation.entered:
        return MemberState.TRAINING
    return MemberState.ENTERING if worker.name in generation.built else MemberState.BUILDING
