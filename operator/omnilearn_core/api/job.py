"""OmniLearnJob as users write it. Field docstrings become the CRD's descriptions (`kubectl explain olj.spec`)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from .base import ApiModel
from .metadata import ObjectMeta
from .names import MANAGER, ApiVersion, Kind
from .status import JobStatus
from .strategy import LocalSteps, Strategy, StrategyType
from .template import PodTemplate

Seconds = Annotated[int, Field(ge=1, le=315360000)]
Count = Annotated[int, Field(ge=0, le=1024)]
Samples = Annotated[int, Field(ge=1, le=16777216)]


class LawName(StrEnum):
    """Who decides the shares."""

    UNIFORM = "Uniform"
    STATIC = "Static"
    PROPORTIONAL = "Proportional"
    PER_EPOCH = "PerEpoch"
    AFFINE = "Affine"


class Device(StrEnum):
    """What a group computes on."""

    CPU = "cpu"
    GPU = "gpu"


class GangScheduler(StrEnum):
    """Who places the pods that a job cannot start without, all together."""

    NONE = "none"
    NATIVE = "native"
    VOLCANO = "volcano"
    COSCHEDULING = "coscheduling"


class CleanPods(StrEnum):
    """Which pods go when a job has ended."""

    RUNNING = "Running"
    ALL = "All"
    NONE = "None"


class Batch(ApiModel):
    """The global batch and how it is shared."""

    global_: Annotated[Samples, Field(alias="global")]
    """Samples of one step over all workers: constant, whatever the members. Cannot be changed."""

    law: LawName = LawName.AFFINE
    """Who decides the shares. Affine (the default) learns each worker's fixed and per-sample cost; Proportional is
    OmniLearn's controller; PerEpoch splits anew once per epoch; Static follows capacity, CPU limits or a first
    measurement; Uniform gives everybody the same."""

    min_per_worker: Annotated[int, Field(ge=0, le=16777216)] = 1
    """The fewest samples a worker gets. With 0, a worker that costs more than it brings gets nothing."""

    max_per_worker: Samples | None = None
    """The most samples a worker gets. Left out: no limit; a share above the memory is computed piece by piece."""

    tail_percent: Annotated[int, Field(ge=0, le=50)] | None = None
    """Percent of every global batch that no worker is given beforehand: whoever is done early takes it, piece by piece,
    which makes up for speeds that vary from step to step. Left out: 30 where it was measured to pay (law Affine or
    Proportional, workers on CPUs, steps of half a second or more, no BatchNorm, no loader processes), else 0.
    Without effect while maxPerWorker is set."""


class WorkerGroup(ApiModel):
    """Workers alike: same device class and pod template."""

    name: Annotated[str, Field(min_length=1, max_length=40)]
    """Name of the group: lower-case letters and digits, beginning with a letter. Cannot be changed."""

    device: Device = Device.CPU
    """What the group computes on: cpu or gpu. Cannot be changed."""

    replicas: Count = 1
    """How many workers are wanted."""

    min_replicas: Count = 0
    """How many are needed to run. Those that cannot be had do not stop a job that has what it needs."""

    capacity: Annotated[int, Field(ge=1, le=1000000)] | None = None
    """Speed of one worker relative to other groups, in any unit. If every group has one, shares start from it, and
    law Static keeps it."""

    template: PodTemplate
    """The worker's pods. What the operator adds is listed in the documentation; all else stays as it is."""


class Membership(ApiModel):
    """How many workers a job needs, and when one counts as lost."""

    min_workers: Annotated[int, Field(ge=1, le=16384)] = 1
    """Workers needed to run, all groups together."""

    max_workers: Annotated[int, Field(ge=1, le=16384)] | None = None
    """At most so many workers, groups filled in order. This is what kubectl scale and an HPA change: set it to use
    them. Left out: all replicas."""

    join_timeout_seconds: Annotated[int, Field(ge=1, le=3600)] = 30
    """How long a worker may take to join once it is running."""

    silent_after_seconds: Annotated[int, Field(ge=3, le=3600)] = 10
    """A member that reports nothing for so long is lost; where reports are rare, two and a half of their pauses."""


class Restart(ApiModel):
    """What to do with workers that fail."""

    max_failures: Annotated[int, Field(ge=0, le=1000000)] = 3
    """Failures of workers before the job fails. Preemptions are counted apart and never limited."""

    fail_on_exit_codes: Annotated[list[Annotated[int, Field(ge=1, le=255)]], Field(max_length=32)] | None = None
    """Exit codes of the script after which trying again is of no use: the job fails at once. Left out: none."""


class Checkpoint(ApiModel):
    """Where and how often the model is saved."""

    claim_name: Annotated[str, Field(min_length=1, max_length=253)]
    """PersistentVolumeClaim to save to. Cannot be changed."""

    every_seconds: Seconds = 60
    """How often to save. A change holds for pods that are created from then on."""

    keep: Annotated[int, Field(ge=1, le=1000)] = 3
    """How many of the newest to keep. A change holds for pods that are created from then on."""


class JobSpec(ApiModel):
    """What is wanted."""

    strategy: Strategy = Strategy()
    """How the workers cooperate."""

    batch: Batch
    """The global batch and how it is shared."""

    workers: Annotated[list[WorkerGroup], Field(min_length=1, max_length=16)]
    """Groups of workers. Groups may be added to a running job."""

    membership: Membership = Membership()
    """How many workers the job needs, and when one counts as lost."""

    restart: Restart = Restart()
    """What to do with workers that fail."""

    checkpoint: Checkpoint | None = None
    """Where and how often to save. Without it, a job that loses all workers starts again."""

    suspend: bool = False
    """True lets all pods go and keeps the progress; false goes on from there."""

    startup_deadline_seconds: Seconds = 600
    """How long the job may take to get the workers it needs."""

    active_deadline_seconds: Seconds | None = None
    """How long the job may run, from its first step and without the time in which it is suspended. Left out: no
    limit."""

    ttl_seconds_after_finished: Annotated[int, Field(ge=0, le=315360000)] | None = None
    """How long a finished job is kept. Left out: until it is deleted."""

    clean_pods: CleanPods = CleanPods.RUNNING
    """Which pods go when the job has ended. Running (the default): those in which something still runs, such as a
    sidecar; the others stay for their logs. All: every one. None: none in which the script has ended."""

    managed_by: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    """Which controller minds this job. Left out, or omnilearn.dev/operator: the operator. Another name: the operator
    leaves the job alone. Cannot be changed."""

    gang_scheduler: GangScheduler = GangScheduler.NONE
    """Who places the pods that the job needs all together: none, native, volcano or coscheduling. Cannot
    be changed."""

    @property
    def ours(self) -> bool:
        """True if the operator minds this job."""
        return self.managed_by in (None, MANAGER)

    @property
    def wanted(self) -> int:
        """Workers of all groups."""
        return sum(group.replicas for group in self.workers)

    @property
    def law(self) -> LawName:
        """The law that decides the shares: a fixed number of local steps is one of its own."""
        fixed = self.strategy.type is StrategyType.LOCAL_SGD and self.strategy.local.steps is LocalSteps.FIXED
        return LawName.UNIFORM if fixed else self.batch.law

    @property
    def fewest(self) -> int:
        """The fewest workers with which the job runs."""
        return max(self.membership.min_workers, sum(group.min_replicas for group in self.workers))

    @property
    def most(self) -> int:
        """The most workers that the job can have."""
        most = self.membership.max_workers
        return self.wanted if most is None else min(most, self.wanted)

    def keeps_for_serving(self, group: WorkerGroup) -> bool:
        """Tell whether the worker of a group has a place because it serves: if somebody else has one, too."""
        return group.name == self.strategy.server_group and self.most > 1

    def first_workers(self) -> list[tuple[WorkerGroup, int]]:
        """Return whom the job begins with, as groups and numbers: what groups need, a server, then group by group."""
        everybody = [(group, index) for group in self.workers for index in range(group.replicas)]
        # The sort keeps the order of those that are equal.
        by_need = sorted(
            everybody,
            key=lambda each: 0 if each[1] < each[0].min_replicas else 1 if self.keeps_for_serving(each[0]) else 2,
        )
        chosen = {(group.name, index) for group, index in by_need[: self.most]}
        return [(group, index) for group, index in everybody if (group.name, index) in chosen]


class OmniLearnJob(ApiModel):
    """One model, trained on unlike workers at the same time, each with the share that it can carry."""

    api_version: ApiVersion
    kind: Kind
    metadata: ObjectMeta
    spec: JobSpec
    """What is wanted."""

    status: JobStatus | None = None
    """What is."""
