"""Heterogeneity levels as OmniLearn defines them: largest over smallest worker at a constant total of cores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from omnilearn_core.simulate.cluster import Event, Scenario, SimulatedWorker, SpeedChange, When

# Cores of four workers (algorithm digest of arXiv 2503.17469: BSP layouts of the released code); repeated for more.
CORES: dict[int, tuple[int, ...]] = {1: (12, 12, 12, 12), 2: (12, 12, 8, 16), 4: (9, 9, 6, 24), 8: (6, 6, 4, 32)}
LEVELS = tuple(CORES)
SCHEDULE = (1, 2, 4, 8, 8, 4, 2, 1)

SAMPLES_PER_WORKER = 32
SAMPLES_PER_SECOND_AND_CORE = 10.0


@dataclass(frozen=True, slots=True)
class Case:
    """One cell of the comparison."""

    level: int = 1
    workers: int = 4
    fixed_share: float = 0.0  # part of the best step time that is fixed cost, …
    fixed_scales: bool = False  # … which scales with the worker's speed, or not
    noise: float = 0.0
    seed: int = 0
    told: bool = False  # whether the law is told the CPU quotas


def scenario(case: Case, windows: int) -> Scenario:
    """Return a run at a constant level; every step is one control window."""
    cores = cores_of(case.level, case.workers)
    batch = SAMPLES_PER_WORKER * case.workers
    # At the optimum, fixed / (fixed + batch / total speed) is the wanted share.
    ratio = case.fixed_share / (1.0 - case.fixed_share)
    total = SAMPLES_PER_SECOND_AND_CORE * sum(cores)
    return Scenario(
        global_batch=batch,
        workers=tuple(
            SimulatedWorker(
                name=f"w{index}",
                speed=SAMPLES_PER_SECOND_AND_CORE * count,
                fixed_seconds=0.0 if case.fixed_scales else ratio * batch / total,
                fixed_samples=ratio * SAMPLES_PER_WORKER if case.fixed_scales else 0.0,
                noise=case.noise,
                group=f"g{count}",
                quota=float(count) if case.told else None,
            )
            for index, count in enumerate(cores)
        ),
        steps=windows,
        window_steps=1,
        window_seconds=0.0,
        steps_per_epoch=10,
        seed=case.seed,
    )


def phases(case: Case, levels: tuple[int, ...], windows: int) -> Scenario:
    """Return a run through several levels, each for the same number of control windows."""
    events: list[Event] = []
    for index, (before, after) in enumerate(pairwise(levels), start=1):
        old, new = cores_of(before, case.workers), cores_of(after, case.workers)
        events += [
            SpeedChange(When(step=index * windows), f"w{worker}", new[worker] / old[worker], case.told)
            for worker in range(case.workers)
            if new[worker] != old[worker]
        ]
    start = scenario(replace(case, level=levels[0]), windows * len(levels))
    return replace(start, events=tuple(events))


def cores_of(level: int, workers: int) -> tuple[int, ...]:
    """Return the cores of each worker."""
    return (CORES[level] * (workers // 4 + 1))[:workers]
