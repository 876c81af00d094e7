"""Laws in a closed loop with workers of constant speed: they settle, near the optimum if they are `Affine`."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import closed_loop
import situations
from omnilearn_core.control.laws import LAWS
from omnilearn_core.control.shares import Slot
from situations import examples

AFFINE = LAWS["Affine"]

laws = st.sampled_from(sorted(LAWS))


def changes(plans: Sequence[dict[str, int]]) -> int:
    return sum(before != after for before, after in itertools.pairwise(plans))


def population(count: int, seed: int = 0) -> list[tuple[int, list[Slot]]]:
    """Return clusters of affine workers: speeds over 1 : 32, fixed cost up to 85 % of the step, alike or not."""
    chance = random.Random(seed)
    clusters = []
    for _ in range(count):
        size = chance.choice([2, 3, 4, 8, 16])
        batch = size * chance.choice([2, 4, 8, 32, 128]) + chance.randrange(size)
        speeds = [2.0 ** chance.uniform(0, 5) for _ in range(size)]
        part = chance.choice([0.0, chance.uniform(0, 0.85), None])
        parts = [chance.uniform(0, 0.85) if part is None else part for _ in range(size)]
        step = batch / sum(speeds)
        slots = [Slot(step * p / (1 - p), 1 / s, 1, batch) for p, s in zip(parts, speeds, strict=True)]
        clusters.append((batch, slots))
    return clusters


@examples(120)
@given(laws, situations.workers())
def test_a_law_settles_under_constant_speeds(law: str, cluster: tuple[int, list[Slot]]) -> None:
    loop = closed_loop.lines(LAWS[law], *cluster)
    settling = loop.run(60)
    settled = loop.run(20)
    # Affine grows surer of its lines and may refine a settled plan once more, but it never goes back.
    refined = changes([settling[-1], *settled])
    assert refined <= (1 if law == "Affine" else 0)
    assert not refined or settled[-1] not in settling


@examples(100)
@given(laws, st.integers(1, 12), st.integers(1, 40), st.floats(0.0, 0.85), st.floats(1e-3, 10.0))
def test_equal_times_change_nothing(law: str, count: int, share: int, part: float, seconds: float) -> None:
    alike = Slot(seconds * part, seconds * (1.0 - part) / share, 1, count * share)
    loop = closed_loop.lines(LAWS[law], count * share, [alike] * count)
    assert set(loop.plan.values()) == {share}
    assert changes([loop.plan, *loop.run(40)]) == 0


@examples(100)
@given(laws, st.integers(2, 8), st.integers(2, 300), st.floats(0.0, 0.85), st.sampled_from([0.1, 0.7, 0.003, 1.0]))
def test_equal_workers_stay_equal_up_to_the_odd_sample(
    law: str, count: int, batch: int, part: float, cost: float
) -> None:
    batch = max(batch, count)
    alike = Slot(part / (1.0 - part) * cost * batch / count, cost, 1, batch)
    plans = closed_loop.lines(LAWS[law], batch, [alike] * count).run(40)
    assert all(max(plan.values()) - min(plan.values()) <= 1 for plan in plans)
    # Affine hands the odd sample on to those of whom it knows less, each once.
    assert changes(plans) <= (count if law == "Affine" else 0)


@examples(100)
@given(laws, situations.workers(fewest=2), st.floats(0.0, 0.85), st.booleans())
def test_a_faster_worker_never_gets_less_by_more_than_the_odd_sample(
    law: str, cluster: tuple[int, list[Slot]], part: float, scales: bool
) -> None:
    # One sample less is possible: of two workers with a fixed cost, who has the larger share looks faster.
    batch, slots = cluster
    costs = [slot.per_sample for slot in slots]
    fixed = part / (1.0 - part) * batch / sum(1.0 / cost for cost in costs)
    alike = [Slot(fixed * (cost / costs[0] if scales else 1.0), cost, 1, batch) for cost in costs]
    loop = closed_loop.lines(LAWS[law], batch, alike)
    loop.run(40)
    pairs = itertools.permutations(zip(costs, loop.plan.values(), strict=True), 2)
    assert all(slow - fast <= 1 for (more, slow), (less, fast) in pairs if more > less)


@examples(120)
@given(situations.workers(fewest=2, least_share=8))
def test_affine_is_always_near_the_optimum_after_six_windows(cluster: tuple[int, list[Slot]]) -> None:
    # With fewer samples than these, one of them may be a third of a step, and no smaller experiment is possible.
    batch, slots = cluster
    loop = closed_loop.lines(AFFINE, batch, slots)
    loop.run(5)
    bound = 1.12 * closed_loop.optimum(batch, slots) + max(slot.per_sample for slot in slots)
    assert all(loop.step <= bound for _ in range(10) if loop.tick())


def test_affine_is_nearly_always_within_two_percent_and_a_sample_of_the_optimum_after_six_windows() -> None:
    missed = 0
    for batch, slots in population(400):
        loop = closed_loop.lines(AFFINE, batch, slots)
        loop.run(6)
        missed += loop.step > 1.02 * closed_loop.optimum(batch, slots) + max(slot.per_sample for slot in slots)
    assert missed <= 6  # of 3 000 clusters, 16


@pytest.mark.parametrize("seed", range(4))
def test_one_hiccup_does_not_unsettle_affine(seed: int) -> None:
    for batch, slots in population(10, seed):
        calm = closed_loop.lines(AFFINE, batch, slots)
        calm.run(30)
        best = calm.step
        hit = calm.plan
        worker = max(hit, key=lambda name: hit[name])
        calm.window += 1
        calm.decide(r._replace(seconds=3 * r.seconds) if r.worker == worker else r for r in calm.measure())
        steps = [calm.step for _ in range(5) if calm.tick()]
        assert steps[-1] <= 1.03 * best + max(slot.per_sample for slot in slots)


def run_with(law: Any, noise: float, seed: int) -> float:
    slots = [Slot(0.2, 0.01 * 2**k, 1, 256) for k in range(4)]
    loop = closed_loop.lines(law, 256, slots, noise=noise, seed=seed)
    loop.run(10)
    steps = [loop.step for _ in range(30) if loop.tick()]
    return sum(steps) / len(steps) / closed_loop.optimum(256, slots)


@pytest.mark.parametrize(
    ("law", "noise", "factor"),
    [("Affine", 0.03, 1.02), ("Affine", 0.08, 1.05), ("Proportional", 0.03, 1.05), ("PerEpoch", 0.03, 1.05)],
)
def test_noise_costs_no_more_than_a_few_percent(law: str, noise: float, factor: float) -> None:
    assert sum(run_with(LAWS[law], noise, seed) for seed in range(5)) / 5 <= factor
