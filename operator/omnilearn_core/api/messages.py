"""What a worker and the coordinator say to each other. Every field is bounded; nothing is trusted.

One JSON message per WebSocket frame (`frames`), told apart by `type`. docs/protocol.md says who sends what, and when.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, model_validator

from .base import ApiModel
from .strategy import Choice, Strategy

WorkerName = Annotated[str, Field(min_length=1, max_length=63)]
Number = Annotated[int, Field(ge=0, le=2**53)]
Share = Annotated[int, Field(ge=0, le=16777216)]
Seconds = Annotated[float, Field(ge=0, le=1e9)]
Address = Annotated[str, Field(min_length=1, max_length=253)]
Port = Annotated[int, Field(ge=1, le=65535)]
Quota = Annotated[float, Field(gt=0, le=65536)]
Sentence = Annotated[str, Field(max_length=2000)]
LawState = Annotated[str, Field(max_length=3 * 2**20)]
LogName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z_][A-Za-z0-9_.]*$")]
Members = Annotated[list["MemberAddress"], Field(min_length=1, max_length=16384)]

# A message larger than this is refused unread: the largest honest one is a join that carries a law's state.
LARGEST_MESSAGE = 4 * 2**20


class GenerationId(ApiModel):
    """A fixed set of members. The nonce keeps a restarted coordinator from using a number twice."""

    number: Number
    nonce: Annotated[str, Field(min_length=1, max_length=64)]

    def __str__(self) -> str:
        return f"{self.number}.{self.nonce}"


class Plan(ApiModel):
    """The shares of all members of a generation; with the tail they sum to the global batch exactly."""

    generation: GenerationId
    version: Number
    global_batch: Annotated[int, Field(ge=1, le=16777216)]
    shares: Annotated[dict[WorkerName, Share], Field(min_length=1, max_length=16384)]
    tail: Share = 0
    """Samples that nobody is given: whoever is early takes them, piece by piece."""

    def in_order(self, workers: Sequence[str]) -> tuple[int, ...]:
        """Return the shares of these workers, in their order."""
        return tuple(self.shares.get(worker, 0) for worker in workers)

    @model_validator(mode="after")
    def _sums_to_the_global_batch(self) -> Plan:
        total = sum(self.shares.values()) + self.tail
        if total != self.global_batch:
            raise ValueError(f"shares and tail sum to {total}, not to the global batch {self.global_batch}")
        return self


class MemberAddress(ApiModel):
    """A member of a generation and where its peers find it; its place in the list is its rank."""

    worker: WorkerName
    attempt: Number
    device: Annotated[str, Field(max_length=16)]
    address: Address
    port: Port
    """Where this worker's store listens: the generation meets at that of rank 0, and one hands out the tail."""

    fresh: bool = False
    """True for a joiner: whatever model it holds does not count, it receives the others'."""


class Change(StrEnum):
    """How a generation takes over from the one before."""

    START = "start"
    """Nobody holds the model of a running generation: begin, or go on from a checkpoint."""

    PLANNED = "planned"
    """Somebody joins or leaves: go on stepping, and change at the first step boundary when all have built the group."""

    URGENT = "urgent"
    """Somebody was lost: abandon what is pending and change at once."""


# From a worker to the coordinator


class Join(ApiModel):
    """A worker that has its model and its data asks to take part, or comes back to the generation it is in."""

    type: Literal["join"] = "join"
    device: Annotated[str, Field(max_length=16)]
    address: Address
    port: Port
    cpu_quota: Quota | None = None
    last_generation: Number = 0
    """The highest generation number it has seen, in a checkpoint too; a new generation's is higher."""

    round: Number | None = None
    """The last round it has committed in the generation it is in; none if it is in none."""

    generation: GenerationId | None = None
    """The generation it is in, if it has lost only its connection: a new coordinator adopts it."""

    members: Members | None = None
    plan: Plan | None = None
    choice: Choice | None = None
    law_state: LawState | None = None
    """What rank 0 keeps for the coordinator; the last one that it was given."""


class Built(ApiModel):
    """The process group of a generation stands on this worker's side."""

    type: Literal["built"] = "built"
    generation: GenerationId


class Entered(ApiModel):
    """After the roll call: this worker holds the generation's model."""

    type: Literal["entered"] = "entered"
    generation: GenerationId
    round: Number


class Broken(ApiModel):
    """An operation or the formation of a generation failed here."""

    type: Literal["broken"] = "broken"
    generation: GenerationId
    why: Sentence


class WorkerReport(ApiModel):
    """That a worker is alive, where it is, and what it measured since its last report, if it finished a step."""

    type: Literal["report"] = "report"
    worker: WorkerName
    generation: GenerationId
    plan_version: Number
    step: Number
    rounds: Number = 0
    epoch: Number = 0
    samples: Number = 0
    """Committed samples of the whole job."""

    total_samples: Number | None = None
    """Samples of the whole job, if the script has said how many epochs it runs."""

    share: Share
    steps: Annotated[int, Field(ge=0, le=1000000)]
    """Steps that were measured; 0 if none has ended, and then the times mean nothing."""

    compute_seconds: Seconds = 0.0
    """Mean per step of loading and computing the share; waiting for others is not part of it."""

    tail_samples: Annotated[float, Field(ge=0, le=16777216)] = 0.0
    tail_seconds: Seconds = 0.0
    """Mean per step of the samples beyond the share, and of loading and computing them."""

    load_seconds: Seconds = 0.0
    reduce_seconds: Seconds = 0.0
    wait_seconds: Seconds = 0.0
    step_seconds: Seconds = 0.0
    """Mean time from one commit to the next."""

    loss: float | None = None
    cpu_quota: Quota | None = None
    memory_bound: Share | None = None
    """The most samples that fit into memory at once, if that was ever exceeded."""

    local_steps: Share = 0
    """Steps that it took between the last two merges, on its own or with its group, if the strategy has merges."""

    staleness: Annotated[float, Field(ge=0, le=2**53)] | None = None
    """Mean delay of its gradients since the last report: updates between handing out their parameters and applying
    them; none if the strategy has no server, or no gradient was taken."""

    most_stale: Number = 0
    """The largest of these delays."""

    exchange_seconds: Seconds | None = None
    team_exchange_seconds: Seconds | None = None
    """Time to sum a model over all members, and over those of its group; none if that was not measured."""

    in_pieces: bool = True
    """Its share may be computed in small pieces: nothing in the model looks at a batch as a whole."""

    skipped: Number = 0
    """Steps skipped so far because their gradient was not finite."""

    logged: Annotated[dict[LogName, float], Field(max_length=64, default_factory=dict)]
    """The newest values of `session.log`."""


class Leave(ApiModel):
    """The worker was told to go (SIGTERM); it stays until it is released."""

    type: Literal["leave"] = "leave"
    why: Sentence


class Done(ApiModel):
    """The script has come to its end; the worker stays until it is released, in case others need its model."""

    type: Literal["done"] = "done"
    generation: GenerationId
    round: Number
    steps: Number
    samples: Number
    lost: Number
    doubled: Number
    """Samples that committed steps should have contained and did not, and those that they contained twice."""

    skipped: Number = 0
    parameter_hash: Annotated[str, Field(max_length=128)]


class Failed(ApiModel):
    """The user's script raised: the last lines of its traceback. The worker goes; the others stay."""

    type: Literal["failed"] = "failed"
    error: Annotated[str, Field(max_length=4000)]
    everywhere: bool = False
    """True if the same will happen on every worker (a script that cannot work), so that trying again is in vain."""


# From the coordinator to a worker


class Welcome(ApiModel):
    """The first message on a connection: what the job is, and whether it runs already."""

    type: Literal["welcome"] = "welcome"
    term: Number
    """Which coordinator speaks; workers refuse a lower term than they have seen."""

    global_batch: Annotated[int, Field(ge=1, le=16777216)]
    running: bool
    """True if a generation holds the model already: this worker will be given it."""

    epoch: Number = 0
    strategy: Strategy = Strategy()
    memory_bound: Share | None = None
    """The most samples that fitted into this worker's memory at once, in an earlier attempt."""

    report_seconds: Annotated[float, Field(gt=0, le=3600)]


class Assignment(ApiModel):
    """A generation, its members, the plan to begin with, and what Auto has chosen, once it has."""

    type: Literal["assignment"] = "assignment"
    term: Number
    generation: GenerationId
    change: Change
    members: Members
    plan: Plan
    choice: Choice | None = None


class Reply(ApiModel):
    """The answer to a report: the newest plan, if it is newer than the report's, and when to report again."""

    type: Literal["reply"] = "reply"
    term: Number
    generation: GenerationId
    plan: Plan | None = None
    report_seconds: Annotated[float, Field(gt=0, le=3600)]
    law_state: LawState | None = None
    """For rank 0 to keep: a new coordinator gets it back with `join`."""


class Release(ApiModel):
    """The worker may go: the job is complete, or it has left, or there is no place for it."""

    type: Literal["release"] = "release"
    why: Sentence
    failed: bool = False
    """True if the job has failed and the worker should say so."""


class Refused(ApiModel):
    """A message that was not understood or not allowed, as an HTTP status and a sentence; it has changed nothing."""

    type: Literal["refused"] = "refused"
    status: Annotated[int, Field(ge=400, le=599)]
    sentence: Sentence


FromWorker = Join | Built | Entered | Broken | WorkerReport | Leave | Done | Failed
ToWorker = Welcome | Assignment | Reply | Release | Refused
