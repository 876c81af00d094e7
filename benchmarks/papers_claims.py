"""The claims that `benchmarks.papers` looks at: which runs each is made of, and which figures of them tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from omnilearn_core.api.strategy import Aggregation, HardSamples, Hierarchical, Staleness, Strategy

from .layouts import CORES
from .papers_plan import Plan
from .papers_ways import (
    BATCH,
    GRADIENT,
    GROUPS,
    LOCAL,
    SCENARIOS,
    SERVED,
    STEP,
    TEXT_GRADIENT,
    TEXT_STEP,
    WAYS,
    Way,
    biased,
    local,
    scenario,
    server,
    speeds,
)

Runs = dict[tuple[str, str], Plan]
"""What is run, by situation and by way."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim of the papers."""

    title: str
    runs: Callable[[], Runs]
    columns: tuple[str, ...]
    """Figures of `papers_figures.FIGURES`."""

    best: str
    """The figure by which the best way of a situation is marked."""

    targets: tuple[float, float] = (0.72, 3.8)
    """What counts as reached: accuracy of the pictures, bits per character of the text."""


_EQUAL, _LAW = "equal shares", "OmniLearn's shares"


def _shares(cores: dict[int, tuple[int, ...]], strategy: Strategy, rates: tuple[float, float], seconds: float) -> Runs:
    """Return equal shares and the law's at every level, on pictures and on text."""
    base = Plan((), strategy=strategy, batch=BATCH, seconds=seconds)
    found: Runs = {}
    for law, name in (("Uniform", _EQUAL), ("Affine", _LAW)):
        for level, each in cores.items():
            plan = replace(base, speeds=speeds(each), law=law, rate=rates[0])
            found[f"HL{level}", name] = plan
            found[f"HL{level}, text", name] = replace(plan, rate=rates[1], subject="text")
    return found


def synchronous() -> Runs:
    """Return OmniLearn's synchronous mode against equal shares."""
    return _shares(CORES, Strategy(), (STEP, TEXT_STEP), 5.0)


def asynchronous() -> Runs:
    """Return OmniLearn's asynchronous mode against equal shares."""
    return _shares(SERVED, server(), (GRADIENT, TEXT_GRADIENT), 5.0)


_SLOW, _FAST = 72.0, 32 * 72.0
_ROUND = 66 * 32


def bias() -> Runs:
    """Return Biased Local SGD against others, where two workers are 32 times as fast as two others.

    What is hard is known after the first pass: with short ones, a bias has more of a run to show itself.
    """
    base = Plan((_SLOW, _SLOW, _FAST, _FAST), samples=12_000, seconds=8.0)
    ways = {
        "Synchronous, equal shares": Way(law="Uniform"),
        "Synchronous": Way(),
        "LocalSGD, by steps": Way(local(), LOCAL, batch=_ROUND),
        "LocalSGD, equal weights": Way(local(aggregation=Aggregation.UNIFORM), LOCAL, batch=_ROUND),
        "hard samples to the slow": Way(biased(HardSamples.SLOW), LOCAL, batch=_ROUND),
        "hard samples to the fast": Way(biased(HardSamples.FAST), LOCAL, batch=_ROUND),
    }
    found: Runs = {("32 : 1", name): way.within(base) for name, way in ways.items()}
    short = replace(base, samples=3000)
    found |= {
        ("32 : 1, short passes", name): way.within(short) for name, way in ways.items() if way.strategy != Strategy()
    }
    found["32 : 1", "Synchronous, fast ones only"] = Way().within(replace(base, speeds=(_FAST, _FAST)))
    return found


def staleness() -> Runs:
    """Return what becomes of old gradients, with data that are the same for all workers, and with their own."""
    base = Plan(speeds(SERVED[8]), law="Uniform", seconds=5.0)
    ways = {
        "Synchronous": Way(law="Uniform"),
        "Unbounded": Way(server(), GRADIENT, "Uniform"),
        "DelayAdaptive": Way(server(Staleness.DELAY_ADAPTIVE), GRADIENT, "Uniform"),
        "Ringmaster": Way(server(Staleness.RINGMASTER, 6), GRADIENT, "Uniform"),
        "Ringleader": Way(server(Staleness.RINGLEADER), 0.15, "Uniform"),
        "Rennala": Way(server(Staleness.RENNALA, 8), 0.3, "Uniform"),
    }
    kinds = {"same data": 0.0, "labels by worker": 0.1}
    return {
        (kind, name): way.within(replace(base, skew=skew)) for kind, skew in kinds.items() for name, way in ways.items()
    }


def groups() -> Runs:
    """Return DASO against synchronous training, with two groups that are far from each other."""
    often = replace_interval(GROUPS, 8)
    base = Plan(speeds(CORES[1]), groups="aabb", seconds=4.0, far=True)
    ways = {"Synchronous": Way(), "interval 4": Way(GROUPS), "interval 8": Way(often)}
    rates = {"no limit": None, "20 Mbit/s": 20.0, "5 Mbit/s": 5.0}
    return {
        (case, name): way.within(replace(base, megabits=megabits))
        for case, megabits in rates.items()
        for name, way in ways.items()
    }


def replace_interval(strategy: Strategy, interval: int) -> Strategy:
    """Return a strategy of groups with another interval."""
    options = {**strategy.in_groups.model_dump(), "interval": interval}
    return strategy.model_copy(update={"hierarchical": Hierarchical.model_validate(options)})


def scenarios() -> Runs:
    """Return every strategy in every situation."""
    return {(case, name): way for case, plan in SCENARIOS.items() for name, way in scenario(plan).items()}


_FACTORS = (0.4, 1.0, 2.5)


def rates() -> Runs:
    """Return every strategy at HL8 with several learning rates, to choose those of `papers_ways` by."""
    plan = SCENARIOS["HL8"]
    return {
        (name, f"{way.rate * factor:.3g}"): replace(way.within(plan), rate=way.rate * factor)
        for name, way in WAYS.items()
        for factor in _FACTORS
    }


_TO_TARGET, _AT_END, _SPEED = "seconds to target", "at the end", "samples per second"
CLAIMS: dict[str, Claim] = {
    "synchronous": Claim(
        "OmniLearn: synchronous, equal shares against the law's",
        synchronous, ("ms per step", "seconds for samples", "after these samples", _TO_TARGET, _AT_END), _TO_TARGET,
    ),
    "asynchronous": Claim(
        "OmniLearn: asynchronous, equal shares against the law's",
        asynchronous, ("largest delay", "delay of the latest", "updates", _TO_TARGET, _AT_END), _TO_TARGET,
    ),
    "bias": Claim(
        "Biased Local SGD: two workers 32 times as fast as two others",
        bias, ("samples", "updates", _TO_TARGET, _AT_END), _TO_TARGET,
    ),
    "staleness": Claim(
        "Old gradients, at 4, 4, 4 and 28 cores with equal shares",
        staleness, ("largest delay", "discarded", "updates", _TO_TARGET, _AT_END), _AT_END,
    ),
    "groups": Claim(
        "DASO: two groups of two workers on a slow network",
        groups, ("samples", _TO_TARGET, _AT_END), _TO_TARGET,
    ),
    "scenarios": Claim("Every strategy by situation", scenarios, (_SPEED, _TO_TARGET, _AT_END), _TO_TARGET),
}  # fmt: skip

TUNING = Claim("Learning rates at HL8", rates, (_TO_TARGET, _AT_END), _AT_END)
