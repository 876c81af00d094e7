"""The model of what each strategy costs."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnilearn_core.api.strategy import Asynchronous, Staleness
from omnilearn_core.simulate.choice import choose
from omnilearn_core.simulate.cluster import SimulatedWorker
from omnilearn_core.simulate.server import KINDS, Fate, Serving
from omnilearn_core.simulate.strategies import (
    Estimate,
    Network,
    Question,
    asynchronous,
    balanced,
    estimates,
    local_sgd,
)
from omnilearn_runtime.asynchronous.policies import Action, Discard, Fold, Issue, policy_of

FAST = Network(bytes_per_second=1e12)
# OmniLearn's asynchronous layout at heterogeneity level 8: 4, 4, 4 and 28 cores
HL8 = tuple(SimulatedWorker(f"w{i}", speed, group="a" if i < 3 else "b") for i, speed in enumerate((4, 4, 4, 28)))
QUESTION = Question(1280, HL8, model_bytes=4e6, network=FAST)


SLOW = Network(1e5)
UNLIKE = st.lists(st.floats(1.0, 100.0), min_size=1, max_size=6)
BOUND = st.integers(1, 12)
NETWORK = st.builds(Network, st.sampled_from([1e12, 1e7, 1e5]), st.sampled_from([0.0, 0.5]))


def by_name(question: Question) -> dict[str, Estimate]:
    return {each.strategy: each for each in estimates(question)}


def served(question: Question, staleness: str = "Unbounded", bound: int | None = None, part: float = 1.0) -> Estimate:
    """Return Asynchronous with equal shares, in which delays are long."""
    return by_name(replace(question, serving=Serving(staleness, bound, part)))["Asynchronous, equal shares"]


def unlike(speeds: list[float], network: Network = FAST) -> Question:
    workers = tuple(SimulatedWorker(f"w{i}", speed) for i, speed in enumerate(speeds))
    return Question(64, workers, model_bytes=4e6, network=network)


def test_with_equal_shares_the_slowest_are_stale_by_nine_and_with_balanced_ones_by_three() -> None:
    found = by_name(QUESTION)
    assert found["Asynchronous, equal shares"].max_staleness == 9
    assert found["Asynchronous"].max_staleness == 3
    assert found["Asynchronous"].mean_staleness == pytest.approx(3, abs=0.2)


def test_without_a_network_only_equal_shares_wait() -> None:
    found = by_name(QUESTION)
    for name in ("Synchronous", "LocalSGD", "Hierarchical", "Asynchronous", "Asynchronous, equal shares"):
        assert found[name].samples_per_second == pytest.approx(40, rel=0.03), name
        assert found[name].idle < 0.1
    assert found["Synchronous, equal shares"].samples_per_second == pytest.approx(16, rel=0.01)


def test_a_slow_network_costs_synchronous_training_most_and_local_steps_least() -> None:
    question = replace(QUESTION, global_batch=128, network=Network(1e6, 0.01), local_batch=1)
    found = by_name(question)
    local = by_name(replace(question, global_batch=1280))["LocalSGD"]
    assert found["Synchronous"].idle > 0.5
    assert local.samples_per_second > 1.5 * found["Synchronous"].samples_per_second
    assert found["Hierarchical"].samples_per_second > found["Synchronous"].samples_per_second


def test_a_server_that_is_the_bottleneck_limits_the_updates() -> None:
    question = replace(QUESTION, network=Network(bytes_per_second=1e5))
    found = asynchronous(question, balanced(question), "Asynchronous")
    assert found.update_seconds == pytest.approx(80, rel=0.01)
    assert found.idle > 0.5


def test_one_worker_needs_no_network_but_for_a_server() -> None:
    alone = replace(QUESTION, workers=HL8[:1], network=Network(1e3, 1.0))
    found = by_name(alone)
    assert found["Synchronous"].idle == pytest.approx(0.0)
    assert found["Asynchronous"].max_staleness == 0


@pytest.mark.parametrize(
    ("staleness", "bound", "discarded", "updates", "most"),
    [("Unbounded", None, 0.0, 1.0, 9), ("DelayAdaptive", None, 0.0, 1.0, 9), ("Ringmaster", 6, 0.32, 113 / 166, 5),
     ("Ringleader", None, 0.0, 42 / 166, 3), ("Rennala", 8, 0.27, 15 / 166, 0)],
)  # fmt: skip
def test_every_kind_of_staleness_is_near_what_was_measured_with_real_workers(
    staleness: str, bound: int | None, discarded: float, updates: float, most: int
) -> None:
    """The figures are those of docs/which-strategy.md, "Old gradients"."""
    found = served(QUESTION, staleness, bound)
    assert found.discarded == pytest.approx(discarded, abs=0.03)
    assert 8.0 / found.update_seconds == pytest.approx(updates, rel=0.06)
    assert found.max_staleness <= most


def fates_of(actions: list[Action]) -> list[Fate]:
    """Return what the runtime decides, in the words of the model."""
    told = [each for each in actions if isinstance(each, Fold | Discard)]
    assert [each.worker for each in told] == [each.worker for each in actions if isinstance(each, Issue)]
    return [Fate(int(each.worker), each.delay, counts=isinstance(each, Fold)) for each in told]


@settings(deadline=None)
@given(st.sampled_from(Staleness), st.none() | BOUND, st.integers(1, 7), st.integers(0, 2**16))
def test_the_model_decides_as_the_runtime_does(kind: Staleness, bound: int | None, workers: int, seed: int) -> None:
    policy, model = policy_of(Asynchronous(staleness=kind, bound=bound)), KINDS[kind](bound, workers)
    policy.members = workers
    draw, computing, issued = random.Random(seed), set[int](), list(range(workers))
    pace = [draw.choice([1, 1, 2, 8]) for _ in range(workers)]
    for _ in range(150):
        for worker in issued:
            policy.begin(str(worker))
            model.begin(worker)
        computing.update(issued)
        arrived = draw.choices(sorted(computing), [pace[each] for each in sorted(computing)])[0]
        computing.remove(arrived)
        fates = model.arrive(arrived)
        assert fates == fates_of(policy.arrive(str(arrived)))
        assert int(model.updates) == policy.version
        issued = [fate.worker for fate in fates]


def test_the_model_knows_every_kind_of_staleness() -> None:
    assert set(KINDS) == set(Staleness)


@settings(deadline=None)
@given(UNLIKE, BOUND, NETWORK)
def test_bounded_is_never_staler_than_its_bound_and_discards_nothing(
    speeds: list[float], bound: int, network: Network
) -> None:
    found = served(unlike(speeds, network), "Bounded", bound)
    assert found.max_staleness <= max(bound, len(speeds) - 1)
    assert found.discarded == 0.0


def test_bounded_is_never_faster_than_unbounded_because_whoever_is_ahead_waits() -> None:
    free, bounded = served(QUESTION), served(QUESTION, "Bounded", 3)
    assert bounded.samples_per_second < 0.6 * free.samples_per_second
    assert free.idle < 0.01 < bounded.idle


@settings(deadline=None)
@given(UNLIKE, NETWORK)
def test_a_bound_that_nothing_reaches_changes_nothing(speeds: list[float], network: Network) -> None:
    question = unlike(speeds, network)
    assert served(question, "Ringmaster", 10**6) == served(question, "Bounded", 10**6) == served(question)


@settings(deadline=None)
@given(UNLIKE, BOUND, NETWORK)
def test_what_ringmaster_discards_is_missing_from_the_samples_that_count(
    speeds: list[float], bound: int, network: Network
) -> None:
    question = unlike(speeds, network)
    free, found = served(question), served(question, "Ringmaster", bound)
    assert found.max_staleness < bound
    assert found.idle == free.idle
    assert found.samples_per_second == pytest.approx((1.0 - found.discarded) * free.samples_per_second)


@settings(deadline=None)
@given(UNLIKE, BOUND, NETWORK)
def test_an_update_of_rennala_wastes_at_most_what_all_others_were_computing(
    speeds: list[float], bound: int, network: Network
) -> None:
    question, others = replace(unlike(speeds, network), global_batch=60 * len(speeds)), len(speeds) - 1
    found = served(question, "Rennala", bound)
    assert found.max_staleness == 0
    assert found.discarded <= others / (others + bound) + 1e-9
    assert found.samples_per_second * found.update_seconds == pytest.approx(60 * bound)


def test_an_update_that_takes_longer_than_all_that_is_played_is_told_from_a_part_of_it() -> None:
    question = replace(QUESTION, serving=Serving("Rennala", 10**6))
    found = asynchronous(question, balanced(question), "Asynchronous")
    assert found.update_seconds == pytest.approx(10**6 * 320 / 40, rel=0.01)


@settings(deadline=None)
@given(UNLIKE, NETWORK)
def test_ringleader_keeps_the_delays_of_its_paper_and_discards_nothing(speeds: list[float], network: Network) -> None:
    found = served(unlike(speeds, network), "Ringleader")
    assert found.max_staleness <= 2 * len(speeds) - 2
    assert found.discarded == 0.0


@pytest.mark.parametrize("ratio", [11.0, 1000.0])
def test_ringleader_makes_an_update_for_each_worker_while_the_slowest_computes_one_gradient(ratio: float) -> None:
    question = replace(unlike([1.0, ratio, ratio - 0.3]), global_batch=3)
    assert served(question, "Ringleader").update_seconds == pytest.approx(1.0 / 3, rel=0.01)


def test_gradients_of_half_the_size_halve_the_time_of_a_push_but_not_that_of_a_pull() -> None:
    question = replace(QUESTION, network=SLOW)
    full, half = served(question), served(question, part=0.5)
    assert full.update_seconds == pytest.approx(40 + 40)
    assert half.update_seconds == pytest.approx(20 + 40)


def test_a_server_in_a_group_of_its_own_does_not_compute_but_does_so_under_other_strategies() -> None:
    server = SimulatedWorker("server", 100, group="server")
    found = by_name(replace(QUESTION, workers=(server, *HL8), serving=Serving(group="server")))
    without, joined = by_name(QUESTION), by_name(replace(QUESTION, workers=(server, *HL8)))
    for name in ("Asynchronous", "Asynchronous, equal shares"):
        assert found[name] == without[name] != joined[name]
    assert found["Synchronous"] == joined["Synchronous"]


@pytest.mark.parametrize("local_batch", [None, 32])
def test_a_merge_of_three_times_as_much_takes_three_times_as_long(local_batch: int | None) -> None:
    question = replace(QUESTION, network=SLOW, local_batch=local_batch)
    plain, thrice = local_sgd(question), local_sgd(replace(question, local_merged=3))
    assert thrice.update_seconds - plain.update_seconds == pytest.approx(2 * question.exchange_seconds)


@pytest.mark.parametrize("local_batch", [None, 32])
def test_anchors_are_every_other_round_and_steps_from_them_take_two_gradients(local_batch: int | None) -> None:
    for network in (FAST, SLOW):
        question = replace(QUESTION, network=network, local_batch=local_batch)
        plain, anchored = local_sgd(question), local_sgd(replace(question, local_anchors=True))
        computing = plain.update_seconds - question.exchange_seconds
        assert anchored.update_seconds == pytest.approx(3 * computing + 2 * question.exchange_seconds)
        assert anchored.samples_per_second * anchored.update_seconds == pytest.approx(2 * 1280)


def test_an_anchor_is_one_gradient_so_it_has_its_fixed_cost_once() -> None:
    alone = replace(QUESTION, workers=(SimulatedWorker("w", 32, fixed_seconds=1),), local_anchors=True)
    assert local_sgd(alone).update_seconds == pytest.approx((40 + 1) + 2 * 40 * (1 + 1))


def test_auto_knows_nothing_of_rules_and_servers_because_it_never_chooses_them() -> None:
    question = replace(QUESTION, network=SLOW)
    ruled = replace(
        question, local_even=True, local_merged=3, local_anchors=True, serving=Serving("Rennala", 2, 0.5, "a")
    )
    assert choose(ruled) == choose(question)


def test_where_everybody_takes_as_many_local_steps_a_round_takes_as_long_as_that_of_the_slowest() -> None:
    question = replace(QUESTION, network=FAST)
    even, balanced_steps = local_sgd(replace(question, local_even=True)), local_sgd(question)
    assert even.update_seconds == pytest.approx(320 / 4, rel=0.01)
    assert balanced_steps.update_seconds == pytest.approx(1280 / 40, rel=0.1)
