"""What `kubectl get` and `describe` show of a job. Bounded: 256 workers must not make an object of megabytes."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from .base import Time, ToldModel
from .strategy import Choice

Step = Annotated[int, Field(ge=0)]
Name = Annotated[str, Field(max_length=253)]
Sentence = Annotated[str, Field(max_length=1024)]
Rate = Annotated[float, Field(ge=0)]


class Phase(StrEnum):
    """Where a job stands, in one word; derived from the conditions."""

    PENDING = "Pending"
    RUNNING = "Running"
    WAITING = "Waiting"
    SUSPENDED = "Suspended"
    COMPLETE = "Complete"
    FAILED = "Failed"


class ConditionStatus(StrEnum):
    """Whether a condition holds."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(ToldModel):
    """One thing that is so or not, since when and why."""

    type: Annotated[str, Field(max_length=316)]
    """Ready, Degraded, Suspended, Complete or Failed."""

    status: ConditionStatus
    """True, False or Unknown."""

    reason: Annotated[str, Field(min_length=1, max_length=1024)]
    """Why, in one word."""

    message: Annotated[str, Field(max_length=32768)] = ""
    """Why, in a sentence."""

    last_transition_time: Time
    """Since when."""

    observed_generation: Step | None = None
    """The version of the spec that this is about."""


class WorkerCounts(ToldModel):
    """The workers in numbers."""

    desired: Step = 0
    """Wanted."""

    ready: Step = 0
    """Running."""

    members: Step = 0
    """Taking part in the current generation."""

    preemptions: Step = 0
    """Workers that were taken away."""

    failures: Step = 0
    """Workers that failed."""

    summary: Annotated[str, Field(max_length=32)] = ""
    """Ready and desired, such as 5/6."""


class MemberStatus(ToldModel):
    """One member and how it does."""

    worker: Name
    """Name of the worker."""

    attempt: Step | None = None
    """Which of its pods trains, from 0."""

    device: Annotated[str, Field(max_length=16)]
    """What it computes on."""

    share: Step
    """Samples of a step that it computes."""

    samples_per_second: Rate
    """Its speed."""

    step_milliseconds: Rate
    """Time it computes in a step, without waiting for others."""

    local_steps: Step | None = None
    """Steps that it takes between two merges, on its own or with its group, where the strategy has merges."""

    staleness: Rate | None = None
    """Mean number of updates between handing out parameters to it and applying its gradient, if there is a server."""

    max_staleness: Step | None = None
    """The largest such number of the last report."""


class DecisionStatus(ToldModel):
    """One decision of the control law."""

    time: Time
    """When."""

    why: Sentence
    """What was decided and why."""


class JobStatus(ToldModel):
    """What is."""

    phase: Phase | None = None
    """Where the job stands, in one word."""

    conditions: Annotated[list[Condition], Field(max_length=16)] = Field(default_factory=list)
    """What is so or not, since when and why."""

    observed_generation: Step | None = None
    """The version of the spec that this status is about."""

    start_time: Time | None = None
    """When the first step was committed."""

    suspended_seconds: Step | None = None
    """How long the job was suspended since then, all times together; activeDeadlineSeconds does not count them."""

    completion_time: Time | None = None
    """When the job ended."""

    generation: Step | None = None
    """Number of the current set of members: it grows whenever one joins or leaves."""

    step: Step | None = None
    """Steps committed."""

    rounds: Step | None = None
    """Rounds committed: exchanges of the members, and updates of a server; those of evaluations are among them."""

    local_steps: Annotated[str, Field(max_length=64)] | None = None
    """Steps between two merges of the slowest and of the fastest member, where the strategy has merges."""

    max_staleness: Step | None = None
    """The largest staleness that the members have told of last, if there is a server."""

    epoch: Step | None = None
    """Epochs completed."""

    progress_percent: Annotated[int, Field(ge=0, le=100)] | None = None
    """Samples committed, of all epochs."""

    samples_per_second: Rate | None = None
    """Speed of all members together."""

    imbalance_percent: Annotated[int, Field(ge=0, le=100)] | None = None
    """How long the members wait for the slowest, in percent of a step."""

    estimated_completion: Time | None = None
    """When the job will end at this speed."""

    workers: WorkerCounts | None = None
    """The workers in numbers."""

    members: Annotated[list[MemberStatus], Field(max_length=64)] = Field(default_factory=list)
    """The members and how they do: the slowest 64."""

    strategy: Choice | None = None
    """What Auto has chosen."""

    decisions: Annotated[list[DecisionStatus], Field(max_length=10)] = Field(default_factory=list)
    """The last ten decisions of the control law."""

    logged: Annotated[dict[str, float], Field(max_length=32)] = Field(default_factory=dict)
    """Newest values that the script has logged."""

    attempts: Annotated[dict[str, Step], Field(max_length=16384)] = Field(default_factory=dict)
    """Newest attempt of each worker whose end was counted: no end is counted twice, and no number used twice."""

    selector: Annotated[str, Field(max_length=512)] | None = None
    """Label selector of the pods, for kubectl scale and autoscalers."""
