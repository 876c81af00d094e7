"""How the workers of a job cooperate: part of the manifest, and told to every worker as it is."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, field_validator

from .base import ApiModel

LOCAL_BATCH = 32
INTERVAL = 4
MAX_INTERVAL = 8


class StrategyType(StrEnum):
    """How the workers cooperate."""

    SYNCHRONOUS = "Synchronous"
    LOCAL_SGD = "LocalSGD"
    HIERARCHICAL = "Hierarchical"
    ASYNCHRONOUS = "Asynchronous"
    AUTO = "Auto"


class LocalSteps(StrEnum):
    """Who takes how many local steps in a round."""

    PROPORTIONAL = "Proportional"
    FIXED = "Fixed"
    SHARES = "Shares"


class Aggregation(StrEnum):
    """What a worker's model weighs in a merge."""

    BY_STEPS = "BySteps"
    UNIFORM = "Uniform"


class Outer(StrEnum):
    """What is made of the mean of all workers' changes."""

    NONE = "None"
    MOMENTUM = "Momentum"
    NESTEROV = "Nesterov"


class Sampling(StrEnum):
    """Which samples a worker gets."""

    UNIFORM = "Uniform"
    LOSS_BIASED = "LossBiased"


class HardSamples(StrEnum):
    """Who gets the samples with the highest loss."""

    SLOW = "Slow"
    FAST = "Fast"


class LocalRule(StrEnum):
    """What a local step does."""

    OPTIMIZER = "Optimizer"
    FEDLALR = "FedLALR"
    BVR = "BVR"


class LocalSGD(ApiModel):
    """Options of LocalSGD."""

    batch: Annotated[int, Field(ge=1, le=16777216)] = LOCAL_BATCH
    """Samples of one local step. A round is a global batch, or interval of them: all local steps of all workers
    between two merges."""

    steps: LocalSteps = LocalSteps.PROPORTIONAL
    """Who takes how many local steps in a round. Proportional: as the law says, so that all are done at the same time.
    Fixed: everybody takes the same number, and the fast wait. Shares: everybody takes one step with its share of each
    global batch, and its model weighs by its samples; batch says nothing then."""

    interval: Annotated[int, Field(ge=1, le=1024)] = 1
    """Global batches of a round."""

    aggregation: Aggregation = Aggregation.BY_STEPS
    """What a worker's model weighs in a merge. BySteps: its local steps to the power of exponentPercent / 100. Uniform:
    the same for all, which is the aggregation bias of Biased Local SGD."""

    exponent_percent: Annotated[int, Field(ge=0, le=100)] = 100
    """Between Uniform (0) and weights in proportion to the local steps (100)."""

    sampling: Sampling = Sampling.UNIFORM
    """Which samples a worker gets. Uniform: the next ones, each once per epoch. LossBiased: some workers get those with
    the highest loss instead, as in Biased Local SGD; samples are then used more than once, or not at all."""

    hard_samples: HardSamples = HardSamples.SLOW
    """With LossBiased: who gets the samples with the highest loss, the workers with less than the mean share (Slow) or
    those with more (Fast)."""

    hard_ratio: Annotated[int, Field(ge=1, le=64)] = 4
    """With LossBiased: how many candidates are drawn for each of them. 1 is no bias."""

    rule: LocalRule = LocalRule.OPTIMIZER
    """What a local step does. Optimizer: a step of the script's optimizer, whose momentum is each worker's own.
    FedLALR: AMSGrad whose state is merged, too, with the optimizer's learning rate. BVR: variance reduction; every
    other round computes the gradient that the local steps of the next one correct, and each step needs its loss as a
    function: session.step(function, …)."""

    outer: Outer = Outer.NONE
    """What is made of the mean of all workers' changes. None: it is the new model. Momentum, Nesterov: it is taken as
    a gradient, as in DiLoCo."""

    outer_rate_percent: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Learning rate of the outer optimizer. Left out: 70 with Nesterov, else 100."""

    outer_momentum_percent: Annotated[int, Field(ge=0, le=99)] = 90
    """Momentum of the outer optimizer."""

    @property
    def by_shares(self) -> bool:
        """True if a local step is a worker's share of a global batch."""
        return self.steps is LocalSteps.SHARES

    @property
    def exponent(self) -> float:
        """The power of the number of local steps, or of the samples, that a worker's model weighs."""
        return 0.0 if self.aggregation is Aggregation.UNIFORM else self.exponent_percent / 100

    @property
    def outer_rate(self) -> float:
        """Learning rate of the outer optimizer."""
        default = 70 if self.outer is Outer.NESTEROV else 100
        return (default if self.outer_rate_percent is None else self.outer_rate_percent) / 100


class Hierarchical(ApiModel):
    """Options of Hierarchical."""

    interval: Annotated[int, Field(ge=1, le=1024)] = INTERVAL
    """Steps that each group takes between two merges, at first. It is halved when the loss of an epoch stays within 5 %
    of the best for two epochs, and goes to maxInterval when it was 1 by then."""

    max_interval: Annotated[int, Field(ge=1, le=1024)] = MAX_INTERVAL
    """The most steps between two merges."""

    warmup_epochs: Annotated[int, Field(ge=0, le=1000000)] = 1
    """Epochs at the beginning in which the groups merge after every step, and wait for it."""

    cooldown_epochs: Annotated[int, Field(ge=0, le=1000000)] = 1
    """The same at the end, where the script says how many epochs there are: session.epochs(n), or batches(epochs=n)."""

    wait: Annotated[int, Field(ge=1, le=1024)] = 1
    """Steps that each group takes while a merge is on its way, before it takes it in. More hide a slower network, but
    what is merged is older; never more than the present interval."""


class Staleness(StrEnum):
    """What becomes of a gradient that was computed with older parameters than the server's."""

    UNBOUNDED = "Unbounded"
    BOUNDED = "Bounded"
    DELAY_ADAPTIVE = "DelayAdaptive"
    RINGMASTER = "Ringmaster"
    RINGLEADER = "Ringleader"
    RENNALA = "Rennala"

    @property
    def has_bound(self) -> bool:
        """True if `bound` says something about it."""
        return self in (Staleness.BOUNDED, Staleness.RINGMASTER, Staleness.RENNALA)


class GradientType(StrEnum):
    """The numbers that gradients are sent as."""

    FULL = "Full"
    BFLOAT16 = "BFloat16"
    FLOAT16 = "Float16"


class Asynchronous(ApiModel):
    """Options of Asynchronous."""

    staleness: Staleness = Staleness.UNBOUNDED
    """What becomes of a gradient whose delay (updates since its parameters were handed out) is d. Unbounded: it is
    applied. Bounded: no d is above bound, because whoever is ahead waits. DelayAdaptive: the more d exceeds the number
    of workers, the shorter is its step. Ringmaster: it is discarded if d is not below bound. Ringleader: updates use
    the newest gradients of all workers, in two phases. Rennala: an update is the mean of bound gradients with d = 0."""

    bound: Annotated[int, Field(ge=1, le=1000000)] | None = None
    """The number of Bounded, Ringmaster and Rennala. Left out: as many as there are members. For Bounded, less than the
    members but one counts as that: anything lower would leave workers idle."""

    server_group: Annotated[str, Field(min_length=1, max_length=40)] | None = None
    """The group whose one worker is the server and has no share of the batch. Left out: the first worker is the server,
    and computes, too. If that worker is lost, another one serves until it is back."""

    gradients: GradientType = GradientType.FULL
    """The numbers that gradients are sent as; parameters are always sent in full. BFloat16 and Float16 halve what is
    sent, and Float16 loses what is below 6e-8."""


class Strategy(ApiModel):
    """How the workers cooperate."""

    type: StrategyType = StrategyType.SYNCHRONOUS
    """Synchronous: every step is one global batch, computed by all members together. LocalSGD: every worker takes
    steps of its own, and after a global batch their models are merged. Hierarchical: the workers of a group train in
    step, the models of the groups are merged every few steps and meanwhile they go on, as in DASO. Asynchronous: a
    server, in the first worker or in one of its own, applies the workers' gradients as they come, so that nobody waits.
    Auto: the job begins as Synchronous, measures for some seconds how long it computes and exchanges, and goes on as
    Synchronous, Hierarchical or LocalSGD; status.strategy says which, and why. Cannot be changed."""

    local_sgd: Annotated[LocalSGD | None, Field(alias="localSGD")] = None
    """Options of LocalSGD. Cannot be changed."""

    hierarchical: Hierarchical | None = None
    """Options of Hierarchical. Cannot be changed."""

    asynchronous: Asynchronous | None = None
    """Options of Asynchronous. Cannot be changed."""

    @property
    def local(self) -> LocalSGD:
        """The options of LocalSGD, if it is that."""
        return self.local_sgd or LocalSGD()

    @property
    def in_groups(self) -> Hierarchical:
        """The options of Hierarchical, if it is that."""
        return self.hierarchical or Hierarchical()

    @property
    def server_group(self) -> str | None:
        """The group whose worker only serves, if there is one."""
        return None if self.asynchronous is None else self.asynchronous.server_group

    @property
    def has_teams(self) -> bool:
        """True if the workers of a group exchange more with each other than with the rest, or may come to do so."""
        return self.type in (StrategyType.HIERARCHICAL, StrategyType.AUTO)

    @property
    def unit(self) -> int:
        """Every share of a whole round is a multiple of so many samples."""
        return self.local.batch if self.type is StrategyType.LOCAL_SGD and not self.local.by_shares else 1


class Choice(ApiModel):
    """What Auto has chosen."""

    type: StrategyType
    """Synchronous, Hierarchical or LocalSGD."""

    interval: Annotated[int, Field(ge=1, le=1024)] = 1
    """Steps between two merges."""

    why: Annotated[str, Field(max_length=1024)] = ""
    """What was measured, and what follows from it."""

    @field_validator("type")
    @classmethod
    def _is_offered(cls, chosen: StrategyType) -> StrategyType:
        if chosen in (StrategyType.AUTO, StrategyType.ASYNCHRONOUS):
            raise ValueError(f"Auto never chooses {chosen}")
        return chosen

    @property
    def strategy(self) -> Strategy:
        """The same, with all options that follow from it."""
        match self.type:
            case StrategyType.LOCAL_SGD:
                return Strategy(type=self.type, local_sgd=LocalSGD(steps=LocalSteps.SHARES, interval=self.interval))
            case StrategyType.HIERARCHICAL:
                # The probe was the warm-up; a blocking epoch at the end would cost what the choice is to save.
                options = Hierarchical(
                    interval=self.interval, max_interval=self.interval, warmup_epochs=0, cooldown_epochs=0
                )
                return Strategy(type=self.type, hierarchical=options)
            case _:
                return Strategy(type=self.type)
