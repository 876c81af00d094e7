"""What a worker and the coordinator say to each other. Every field is bounded; nothing is trusted."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from .base import ApiModel

WorkerName = Annotated[str, Field(min_length=1, max_length=63)]
Number = Annotated[int, Field(ge=0, le=2**53)]
Share = Annotated[int, Field(ge=0, le=16777216)]
Seconds = Annotated[float, Field(ge=0, le=1e9)]


class GenerationId(ApiModel):
    """A fixed set of members. The nonce keeps a restarted coordinator from using a number twice."""

    number: Number
    nonce: Annotated[str, Field(min_length=1, max_length=64)]


class Plan(ApiModel):
    """The shares of all members of a generation; they sum to the global batch exactly."""

    generation: GenerationId
    version: Number
    from_step: Number
    global_batch: Annotated[int, Field(ge=1, le=16777216)]
    shares: Annotated[dict[WorkerName, Share], Field(min_length=1, max_length=16384)]

    @model_validator(mode="after")
    def _sums_to_the_global_batch(self) -> Plan:
        total = sum(self.shares.values())
        if total != self.global_batch:
            raise ValueError(f"the shares sum to {total}, not to the global batch {self.global_batch}")
        return self


class Join(ApiModel):
    """A worker asks to take part."""

    job: Annotated[str, Field(min_length=1, max_length=63)]
    worker: WorkerName
    attempt: Number
    device: Annotated[str, Field(max_length=16)]
    address: Annotated[str, Field(min_length=1, max_length=253)]
    cpu_quota: Annotated[float, Field(gt=0, le=65536)] | None = None
    committed_step: Number | None = None
    """The step whose model the worker holds; none if it holds no model."""


class MemberAddress(ApiModel):
    """A member of a generation and where its peers find it; its place in the list is its rank."""

    worker: WorkerName
    address: Annotated[str, Field(min_length=1, max_length=253)]


class Change(StrEnum):
    """Why a generation is formed."""

    GROW = "grow"
    SHRINK = "shrink"


class Assignment(ApiModel):
    """The coordinator tells a worker its generation, its peers and the plan to begin with."""

    term: Number
    """Which coordinator speaks; workers refuse a lower term than they have seen."""

    generation: GenerationId
    change: Change
    members: Annotated[list[MemberAddress], Field(min_length=1, max_length=16384)]
    store_port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Where the lowest rank has opened the generation's store; none while it is being prepared."""

    plan: Plan | None = None


class WorkerReport(ApiModel):
    """What a worker measured over one control window."""

    worker: WorkerName
    generation: GenerationId
    plan_version: Number
    step: Number
    share: Share
    steps: Annotated[int, Field(ge=1, le=1000000)]
    compute_seconds: Seconds
    """Mean per step; waiting for others is not part of it."""

    wait_seconds: Seconds
    loss: float | None = None
    cpu_quota: Annotated[float, Field(gt=0, le=65536)] | None = None
    memory_bound: Share | None = None
    """The most samples that fit into memory at once, if that was ever exceeded."""


class Reply(ApiModel):
    """The coordinator's answer to a report: the newest plan, if there is one, and when to report again."""

    term: Number
    generation: GenerationId
    plan: Plan | None = None
    next_report_seconds: Annotated[float, Field(gt=0, le=3600)]
