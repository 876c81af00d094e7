"""Laws of intervals, shares, the ledger and the audit sum."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from omnilearn_runtime.ledger import DoubledError, Intervals, Ledger, UnleasedError, checksum, epoch_order, scaled

TOP = 60
laws = settings(max_examples=150, derandomize=True, deadline=None)
intervals = st.lists(
    st.tuples(st.integers(0, TOP), st.integers(0, TOP)).map(lambda p: (min(p), max(p))), max_size=6
).map(lambda pairs: Intervals.of(*pairs))
shares = st.lists(st.integers(0, 40), min_size=1, max_size=8)


def positions(of: Intervals) -> set[int]:
    return {position for start, end in of for position in range(start, end)}


@laws
@given(intervals, intervals)
def test_intervals_are_sets_of_positions(left: Intervals, right: Intervals) -> None:
    assert positions(left.union(right)) == positions(left) | positions(right)
    assert positions(left.overlap(right)) == positions(left) & positions(right)
    assert positions(left.minus(right)) == positions(left) - positions(right)
    assert left.size == len(positions(left))


@laws
@given(intervals, intervals)
def test_equal_sets_are_equal_values(left: Intervals, right: Intervals) -> None:
    assert left.minus(right).union(left.overlap(right)) == left


@laws
@given(intervals, shares)
def test_a_split_is_a_partition_in_order(whole: Intervals, sizes: list[int]) -> None:
    wanted = scaled(whole.size, sizes)
    parts = whole.split(wanted)
    assert [part.size for part in parts] == wanted
    assert [p for part in parts for p in sorted(positions(part))] == sorted(positions(whole))


@laws
@given(intervals, st.integers(0, TOP))
def test_take_gives_the_first_and_the_rest(whole: Intervals, count: int) -> None:
    count = min(count, whole.size)
    first, rest = whole.take(count)
    assert sorted(positions(first)) == sorted(positions(whole))[:count]
    assert first.union(rest) == whole


@pytest.mark.parametrize("count", [-1, 4])
def test_more_than_there_is_cannot_be_taken(count: int) -> None:
    with pytest.raises(ValueError, match="3 positions cannot be split"):
        Intervals.of((0, 3)).take(count)


@laws
@given(intervals)
def test_intervals_survive_a_list(whole: Intervals) -> None:
    assert Intervals.from_list(whole.to_list()) == whole


@pytest.mark.parametrize(
    "value",
    [None, {}, [1], [[1]], [[2, 1]], [[1, 1]], [[0, 2], [1, 3]], [[0, 1], [1, 2]], [[-1, 2]], [[0, 1.0]], [[False, 2]]],
)
def test_a_list_that_is_no_intervals_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="interval"):
        Intervals.from_list(value)


def test_an_interval_cannot_end_before_it_starts() -> None:
    with pytest.raises(ValueError, match="ends before it starts"):
        Intervals.of((3, 1))


@laws
@given(st.integers(0, 500), shares)
def test_scaled_shares_sum_to_the_size_and_keep_zeros(size: int, given_shares: list[int]) -> None:
    result = scaled(size, given_shares)
    assert sum(result) == size
    if any(given_shares):
        assert all(new == 0 for new, old in zip(result, given_shares, strict=True) if old == 0)


@laws
@given(shares)
def test_shares_of_their_own_size_stay(given_shares: list[int]) -> None:
    assert scaled(sum(given_shares), given_shares) == given_shares


@laws
@given(st.integers(0, 500), shares.filter(any))
def test_scaled_shares_are_off_by_less_than_one_sample(size: int, given_shares: list[int]) -> None:
    total = sum(given_shares)
    assert all(
        abs(new * total - size * old) < total for new, old in zip(scaled(size, given_shares), given_shares, strict=True)
    )


def test_shares_that_are_all_zero_become_equal() -> None:
    assert scaled(5, [0, 0, 0]) == [2, 2, 1]


@pytest.mark.parametrize(("size", "given_shares"), [(-1, [1]), (1, []), (1, [2, -1])])
def test_impossible_shares_are_refused(size: int, given_shares: list[int]) -> None:
    with pytest.raises(ValueError, match="cannot be shared"):
        scaled(size, given_shares)


@laws
@given(st.integers(0, TOP), st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 20), st.sampled_from("lcgi"))))
def test_no_sample_is_lost_or_doubled(size: int, deeds: list[tuple[str, int, str]]) -> None:
    ledger = Ledger(size)
    for who, count, deed in deeds:
        held = ledger.leased.get(who, Intervals())
        part, _ = held.take(min(count, held.size))
        match deed:
            case "l":
                ledger = ledger.lease(who, count)
            case "c":
                ledger = ledger.commit(part)
            case "g":
                ledger = ledger.give_back(who)
            case _:
                ledger = ledger.give_back_intervals(part)
        parts = [ledger.committed, ledger.remaining, *ledger.leased.values()]
        assert sum(p.size for p in parts) == size
        assert Intervals().union(*parts) == Intervals.of((0, size))


def test_a_commit_does_not_change_the_ledger_it_was_made_from() -> None:
    before = Ledger(10).lease("a", 4)
    after = before.commit(Intervals.of((0, 2)))
    assert (before.committed.size, after.committed.size, after.leased["a"]) == (0, 2, Intervals.of((2, 4)))


def test_the_last_lease_of_an_epoch_may_be_short() -> None:
    assert Ledger.synchronous(10, 8).lease("a", 4).leased == {"a": Intervals.of((8, 10))}


def test_a_sample_is_not_committed_twice() -> None:
    with pytest.raises(DoubledError, match=r"\[\[1, 3\]\] would be committed twice"):
        Ledger.synchronous(10, 3).commit(Intervals.of((1, 4)))


def test_a_sample_that_nobody_leased_is_not_committed() -> None:
    with pytest.raises(UnleasedError, match=r"nobody has leased the positions \[\[4, 6\]\]"):
        Ledger(10).lease("a", 4).commit(Intervals.of((2, 6)))


def test_a_sample_is_not_leased_to_two() -> None:
    with pytest.raises(DoubledError, match="position 2 would be leased or committed twice"):
        Ledger(10, leased={"a": Intervals.of((0, 3)), "b": Intervals.of((2, 4))})


def test_a_ledger_knows_only_samples_of_its_epoch() -> None:
    with pytest.raises(ValueError, match="not in an epoch of 10 samples"):
        Ledger.synchronous(10, 11)


def test_the_order_of_an_epoch_is_a_permutation_that_never_changes() -> None:
    order = epoch_order(1000, seed=7, epoch=3, shuffle=True)
    assert torch.equal(order.sort().values, torch.arange(1000))
    assert torch.equal(order, epoch_order(1000, seed=7, epoch=3, shuffle=True))
    assert epoch_order(10, seed=7, epoch=3, shuffle=True).tolist() == [4, 6, 1, 3, 5, 0, 2, 7, 8, 9]


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    orders = {
        tuple(epoch_order(50, seed, epoch, shuffle=True).tolist()) for seed in (-1, 0, 1, 2**70) for epoch in range(5)
    }
    assert len(orders) == 20


def test_without_shuffling_samples_come_in_their_own_order() -> None:
    assert epoch_order(4, seed=1, epoch=1, shuffle=False).tolist() == [0, 1, 2, 3]


@laws
@given(intervals, shares)
def test_the_checksum_of_the_parts_is_that_of_the_whole(whole: Intervals, sizes: list[int]) -> None:
    assert sum(map(checksum, whole.split(scaled(whole.size, sizes)))) == checksum(whole)


def test_the_checksum_tells_samples_apart() -> None:
    sums = [checksum(Intervals.of((start, end))) for start in range(50) for end in range(start + 1, 50)]
    assert len(set(sums)) == len(sums)


def test_the_checksum_is_splitmix() -> None:
    def mix(position: int) -> int:
        z = (position + 0x9E3779B97F4A7C15) % 2**64
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return (z ^ (z >> 31)) & (2**31 - 1)

    at = 2**40
    assert checksum(Intervals.of((0, 100), (at, at + 100))) == sum(map(mix, [*range(100), *range(at, at + 100)]))


def test_the_checksum_of_a_large_step_is_exact_in_a_float() -> None:
    whole = Intervals.of((5, 5 + 2**22))
    assert checksum(whole) == sum(map(checksum, whole.split([2**21 + 3, 2**21 - 3]))) < 2**53
