"""Splitting a batch: exact, within the bounds, and the best that whole samples allow."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

import situations
from omnilearn_core.control.shares import ImpossibleSplitError, Slot, apportion, balance, ensure_possible, makespan
from situations import examples

weights = st.floats(0.0, 1e18)
times = st.tuples(st.floats(0.0, 10.0), st.floats(1e-4, 10.0))


@st.composite
def splits(draw: st.DrawFn, most: int = 8, largest: int = 60) -> tuple[int, list[Slot]]:
    limits = draw(st.lists(situations.bounds(largest), min_size=1, max_size=most))
    return draw(situations.batches(limits)), [Slot(*draw(times), low, high) for low, high in limits]


def ways(total: int, slots: Sequence[Slot]) -> Iterator[tuple[int, ...]]:
    return (s for s in itertools.product(*(range(x.minimum, x.maximum + 1) for x in slots)) if sum(s) == total)


def assert_fits(shares: Sequence[int], total: int, limits: Sequence[tuple[int, int]]) -> None:
    assert all(type(share) is int for share in shares)
    assert sum(shares) == total
    assert all(low <= share <= high for share, (low, high) in zip(shares, limits, strict=True))


@examples(300)
@given(splits(), st.data())
def test_apportioned_shares_sum_to_the_batch_within_every_bound(
    split: tuple[int, list[Slot]], data: st.DataObject
) -> None:
    total, slots = split
    limits = [(slot.minimum, slot.maximum) for slot in slots]
    given_weights = data.draw(st.lists(weights, min_size=len(slots), max_size=len(slots)))
    assert_fits(apportion(total, given_weights, limits), total, limits)


@examples(300)
@given(splits())
def test_balanced_shares_sum_to_the_batch_within_every_bound(split: tuple[int, list[Slot]]) -> None:
    total, slots = split
    assert_fits(balance(total, slots), total, [(slot.minimum, slot.maximum) for slot in slots])


@examples(60)
@given(st.integers(1, 300), st.integers(10_000, 2**24))
def test_shares_of_many_workers_with_extreme_speeds_fit(count: int, total: int) -> None:
    speeds = [10.0 ** ((k * 7919) % 13 - 6) for k in range(count)]
    limits = [(0, total)] * count
    assert_fits(apportion(total, speeds, limits), total, limits)
    assert_fits(balance(total, [Slot(1.0 / s, 1.0 / s, 0, total) for s in speeds]), total, limits)


@examples(250)
@given(splits(most=3, largest=9))
def test_no_split_of_whole_samples_is_done_earlier_than_the_balanced_one(split: tuple[int, list[Slot]]) -> None:
    total, slots = split
    best = min(makespan(shares, slots) for shares in ways(total, slots))
    assert makespan(balance(total, slots), slots) == pytest.approx(best, rel=1e-9)


@examples(200)
@given(splits(), st.data())
def test_apportioned_shares_are_less_than_a_sample_from_their_proportion(
    split: tuple[int, list[Slot]], data: st.DataObject
) -> None:
    total, slots = split
    heavy = st.floats(0.01, 100.0)
    loads = data.draw(st.lists(heavy, min_size=len(slots), max_size=len(slots)))
    shares = apportion(total, loads, [(0, total)] * len(slots))
    exact = [total * load / sum(loads) for load in loads]
    assert all(abs(share - amount) < 1 + 1e-6 for share, amount in zip(shares, exact, strict=True))


@examples(300)
@given(st.lists(st.integers(1, 10_000), min_size=2, max_size=8), situations.bounds(), st.data())
def test_a_heavier_weight_never_gets_less(loads: list[int], limits: tuple[int, int], data: st.DataObject) -> None:
    everybody = [limits] * len(loads)
    shares = apportion(data.draw(situations.batches(everybody)), loads, everybody)
    by_load = sorted(zip(loads, shares, strict=True))
    assert all(lighter <= heavier for (a, lighter), (b, heavier) in itertools.pairwise(by_load) if a < b)


@examples(300)
@given(st.lists(st.floats(1e-3, 10.0), min_size=2, max_size=8), st.floats(0.0, 10.0), situations.bounds(), st.data())
def test_a_faster_worker_never_gets_less(
    costs: list[float], fixed: float, limits: tuple[int, int], data: st.DataObject
) -> None:
    slots = [Slot(fixed, cost, *limits) for cost in costs]
    shares = balance(data.draw(situations.batches([limits] * len(costs))), slots)
    by_speed = [share for _, share in sorted(zip(costs, shares, strict=True), key=lambda pair: (-pair[0], pair[1]))]
    assert by_speed == sorted(by_speed)


@examples(100)
@given(st.integers(1, 500), st.integers(1, 40), st.floats(1e-3, 1e3))
def test_equal_workers_get_equal_shares_up_to_one_sample(total: int, count: int, weight: float) -> None:
    equal = apportion(total, [weight] * count, [(0, total)] * count)
    assert max(equal) - min(equal) <= 1
    assert equal == balance(total, [Slot(0.0, 1.0 / weight, 0, total)] * count)


def test_rounding_errors_of_equal_speeds_do_not_decide_who_gets_the_odd_sample() -> None:
    nearly = [3 / (0.1 * 3), 2 / (0.1 * 2)]
    assert nearly[0] != nearly[1]
    assert apportion(5, nearly, [(1, 5)] * 2) == apportion(5, nearly[::-1], [(1, 5)] * 2) == [3, 2]


@pytest.mark.parametrize(
    ("total", "limits", "sentence"),
    [
        (5, [], "there are no members to share the global batch: add a worker"),
        (5, [(3, 9), (3, 9)], "need at least 6 samples a step, but the global batch is 5: lower minPerWorker"),
        (19, [(3, 9), (3, 9)], "can hold at most 18 samples a step, but the global batch is 19: raise maxPerWorker"),
        (9, [(5, 3), (1, 9)], "at least 5 samples a step but can hold only 3: lower minPerWorker or raise maxPerW"),
    ],
)
def test_an_impossible_demand_says_which_bound_to_change(
    total: int, limits: list[tuple[int, int]], sentence: str
) -> None:
    slots = [Slot(0.0, 1.0, low, high) for low, high in limits]
    with pytest.raises(ImpossibleSplitError, match=sentence):
        apportion(total, [1.0] * len(limits), limits)
    with pytest.raises(ImpossibleSplitError, match=sentence):
        balance(total, slots)


@examples(200)
@given(st.lists(situations.bounds(), max_size=6), st.integers(0, 400))
def test_a_split_is_made_exactly_when_it_is_possible(limits: list[tuple[int, int]], total: int) -> None:
    slots = [Slot(0.5, 1.0, low, high) for low, high in limits]
    possible = bool(slots) and sum(s.minimum for s in slots) <= total <= sum(s.maximum for s in slots)
    if possible:
        ensure_possible(total, slots)
        assert_fits(balance(total, slots), total, limits)
    else:
        with pytest.raises(ImpossibleSplitError):
            balance(total, slots)


def test_a_share_of_zero_costs_nothing() -> None:
    assert makespan([0, 2], [Slot(9.0, 1.0, 0, 5), Slot(0.5, 1.0, 0, 5)]) == 2.5
    assert math.isclose(
        makespan(
            balance(4, [Slot(9.0, 1.0, 0, 5), Slot(0.5, 1.0, 0, 5)]), [Slot(9.0, 1.0, 0, 5), Slot(0.5, 1.0, 0, 5)]
        ),
        4.5,
    )
