"""The ways to cooperate and the situations that `benchmarks.papers` compares them in, as data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from omnilearn_core.api.strategy import (
    Aggregation,
    Asynchronous,
    HardSamples,
    Hierarchical,
    LocalRule,
    LocalSGD,
    Outer,
    Sampling,
    Staleness,
    Strategy,
    StrategyType,
)

from .layouts import CORES
from .papers_plan import Plan

SAMPLES_PER_SECOND_AND_CORE = 60.0
BATCH = 256
ROUND = 768
"""Samples between two merges of local steps: 24 steps of 32."""

# Learning rates: of a step over the global batch, of a local step, and of one worker's gradient.
STEP, LOCAL, GRADIENT = 0.5, 0.4, 0.1
TEXT_STEP, TEXT_GRADIENT = 2.0, 0.4

# OmniLearn's layouts for asynchronous training (algorithm digest of arXiv 2503.17469), without the server's cores.
SERVED: dict[int, tuple[int, ...]] = {1: (10, 10, 10, 10), 2: (8, 8, 8, 16), 4: (10, 10, 4, 16), 8: (4, 4, 4, 28)}


@dataclass(frozen=True, slots=True)
class Way:
    """A strategy with the learning rate that suits it: the best of a grid, by `--only rates`."""

    strategy: Strategy = field(default_factory=Strategy)
    rate: float = STEP
    law: str = "Affine"
    batch: int = BATCH

    def within(self, plan: Plan) -> Plan:
        """Return a plan that goes this way."""
        return replace(plan, strategy=self.strategy, rate=self.rate, law=self.law, batch=self.batch)


def local(**options: object) -> Strategy:
    """Return local steps of 32 samples."""
    return Strategy(type=StrategyType.LOCAL_SGD, local_sgd=LocalSGD.model_validate({"batch": 32, **options}))


def server(staleness: Staleness = Staleness.UNBOUNDED, bound: int | None = None) -> Strategy:
    """Return a server that treats old gradients in some way."""
    return Strategy(type=StrategyType.ASYNCHRONOUS, asynchronous=Asynchronous(staleness=staleness, bound=bound))


def biased(who: HardSamples) -> Strategy:
    """Return Biased Local SGD."""
    return local(aggregation=Aggregation.UNIFORM, sampling=Sampling.LOSS_BIASED, hard_samples=who)


# Runs are shorter than an epoch: with DASO's warm-up they would be nothing else.
GROUPS = Strategy(
    type=StrategyType.HIERARCHICAL, hierarchical=Hierarchical(interval=4, warmup_epochs=0, cooldown_epochs=0)
)

WAYS: dict[str, Way] = {
    "Synchronous, equal shares": Way(law="Uniform"),
    "Synchronous": Way(),
    "LocalSGD": Way(local(), LOCAL, batch=ROUND),
    "LocalSGD, biased": Way(biased(HardSamples.SLOW), LOCAL, batch=ROUND),
    "LocalSGD, DiLoCo": Way(local(outer=Outer.NESTEROV), 0.3, batch=ROUND),
    "LocalSGD, FedLALR": Way(local(rule=LocalRule.FEDLALR), 0.004, batch=ROUND),
    "LocalSGD, BVR": Way(local(rule=LocalRule.BVR), 0.12, batch=ROUND),
    "Hierarchical": Way(GROUPS),
    "Asynchronous": Way(server(), GRADIENT),
    "Asynchronous, Ringmaster": Way(server(Staleness.RINGMASTER, 6), GRADIENT),
    "Asynchronous, Ringleader": Way(server(Staleness.RINGLEADER), 0.15),
    "Asynchronous, Rennala": Way(server(Staleness.RENNALA, 8), 0.3),
}
"""Every strategy; another row of the last table is another entry here.

Bounded and DelayAdaptive are not among them: with the law's shares hardly a delay is above the number of members, and
then they do what Unbounded does.
"""


def scenario(plan: Plan) -> dict[str, Plan]:
    """Return all ways in a situation, and what Auto makes of it."""
    auto = replace(Way(Strategy(type=StrategyType.AUTO)).within(plan), seconds=_AUTO_SECONDS)
    if plan.visits:  # away for as much of the time as with the others
        auto = replace(auto, visits=tuple((2.0 * each + 0.2, 2.0 * each + 1.0) for each in range(8)))
    return {way: each.within(plan) for way, each in WAYS.items()} | {AUTO: auto}


def speeds(cores: tuple[int, ...]) -> tuple[float, ...]:
    """Return how many samples a second workers with so many cores compute."""
    return tuple(SAMPLES_PER_SECOND_AND_CORE * each for each in cores)


# Passes over the data are short, because Biased Local SGD knows what is hard from the second on.
_ALIKE = Plan(speeds(CORES[1]), groups="aabb", samples=6000, seconds=4.0)

AUTO = "Auto"
# It needs ten seconds at most until it has chosen, and is judged by the last four.
_AUTO_SECONDS = 16.0

SCENARIOS: dict[str, Plan] = {
    "compute-bound": _ALIKE,
    "communication-bound": replace(_ALIKE, megabits=20.0),
    "HL8": replace(_ALIKE, speeds=speeds(CORES[8])),
    "comes and goes": replace(_ALIKE, visits=((0.6, 1.4), (2.2, 3.0))),
}
