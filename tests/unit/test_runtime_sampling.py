"""Which samples a worker gets when sampling is biased by losses."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from omnilearn_core.api.strategy import HardSamples
from omnilearn_runtime.division import Place
from omnilearn_runtime.ledger import epoch_order
from omnilearn_runtime.strategies.sampling import LossBias, hard_ranks, hardest, own_places

SIZE, BATCH = 96, 16
SHARES = (4, 10, 2)


def seen(bias: LossBias, losses: torch.Tensor) -> LossBias:
    """Have everybody share these losses, one for each sample."""
    bias.order(torch.arange(len(losses)), 0, Place(BATCH, (), 0))
    bias.saw(range(len(losses)), losses)
    bias.merge(*bias.contributions())
    return bias


def test_the_slow_are_those_below_the_mean_share() -> None:
    assert hard_ranks(SHARES, HardSamples.SLOW) == [0, 2]
    assert hard_ranks(SHARES, HardSamples.FAST) == [1]
    assert hard_ranks((5, 5), HardSamples.SLOW) == hard_ranks((), HardSamples.SLOW) == []


def test_a_worker_without_a_share_gets_no_hard_samples() -> None:
    assert hard_ranks((0, 2, 10), HardSamples.SLOW) == [1]


def test_of_all_candidates_the_hardest_are_chosen() -> None:
    scores = torch.arange(100.0)
    chosen = hardest(torch.arange(100), scores, 10, 10, seed=3)
    assert sorted(chosen.tolist()) == list(range(90, 100))


def test_with_a_ratio_of_one_nothing_is_preferred() -> None:
    order = torch.arange(1000)
    chosen = hardest(order, torch.arange(1000.0), 500, 1, seed=3)
    assert len(set(chosen.tolist())) == 500
    assert 400 < chosen.double().mean() < 600


def test_what_nobody_has_seen_comes_first() -> None:
    scores = torch.full((20,), 100.0)
    scores[:5] = torch.inf
    assert set(hardest(torch.arange(20), scores, 5, 4, seed=0).tolist()) == set(range(5))


@given(shares=st.lists(st.integers(1, 9), min_size=2, max_size=5), rounds=st.integers(1, 6))
def test_hard_ranks_use_places_of_their_own(shares: list[int], rounds: int) -> None:
    batch = sum(shares)
    hard = hard_ranks(shares, HardSamples.SLOW)
    positions, places = [], []
    for rank in hard:
        own, at = own_places(rounds * batch, batch, shares, rank, hard)
        positions += own.tolist()
        places += at.tolist()
    assert len(set(positions)) == len(positions)
    assert sorted(places) == list(range(rounds * sum(shares[rank] for rank in hard)))


def test_the_fast_keep_the_order_and_the_slow_get_the_hardest() -> None:
    order = epoch_order(SIZE, 0, 1, True)
    bias = seen(LossBias(HardSamples.SLOW, 64), torch.arange(float(SIZE)))
    assert torch.equal(bias.order(order, 1, Place(BATCH, SHARES, 1)), order)
    given = []
    for rank in (0, 2):
        mine = bias.order(order, 1, Place(BATCH, SHARES, rank))
        positions, _ = own_places(SIZE, BATCH, SHARES, rank, [0, 2])
        given += mine[positions].tolist()
    wanted = SIZE * 6 // 16
    assert sorted(given) == list(range(SIZE - wanted, SIZE))


def test_before_anything_is_known_every_order_is_a_random_one() -> None:
    order = epoch_order(SIZE, 0, 0, True)
    mine = LossBias(HardSamples.SLOW, 4).order(order, 0, Place(BATCH, SHARES, 0))
    positions, _ = own_places(SIZE, BATCH, SHARES, 0, [0, 2])
    assert len(set(mine[positions].tolist())) == len(positions)


def test_a_mean_loss_counts_for_all_its_samples() -> None:
    bias = LossBias(HardSamples.SLOW, 4)
    bias.order(torch.arange(4), 0, Place(2, (), 0))
    bias.saw([0, 1], torch.tensor(3.0))
    bias.saw([1], torch.tensor([5.0]))
    sums, counts = bias.contributions()
    assert (sums.tolist(), counts.tolist()) == ([3, 8, 0, 0], [1, 2, 0, 0])
    bias.merge(sums, counts)
    assert bias.figures == {"unused_samples": 2.0, "most_uses_of_a_sample": 2.0}
    other = LossBias(HardSamples.SLOW, 4)
    other.load(bias.to_tree())
    assert other.to_tree()["scores"].tolist() == [3.0, 4.0, torch.inf, torch.inf]


def test_a_sample_without_a_loss_is_not_taken_for_a_hard_one_and_one_that_is_there_twice_counts_twice() -> None:
    bias = LossBias(HardSamples.SLOW, 4)
    bias.order(torch.arange(4), 0, Place(2, (), 0))
    bias.saw([0, 1, 1], torch.tensor([torch.nan, 1.0, 3.0]))
    sums, counts = bias.contributions()
    assert (sums.tolist(), counts.tolist()) == ([0, 4, 0, 0], [1, 2, 0, 0])
