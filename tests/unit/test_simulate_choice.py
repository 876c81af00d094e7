"""What Auto chooses, by the model of `omnilearn simulate`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from omnilearn_core.simulate.choice import LEAST_GAIN, NEAR_BEST, choose
from omnilearn_core.simulate.cluster import SimulatedWorker
from omnilearn_core.simulate.strategies import Network, Question, balanced, hierarchical, local_sgd, synchronous


def question(exchange: float, inside: float | None = None, hidden: float = 0.0, groups: str = "aabb") -> Question:
    """Return a job that computes a second per step, with an exchange of so many seconds."""
    count = len(groups)
    workers = tuple(SimulatedWorker(f"{group}{i}", 64.0 / count, group=group) for i, group in enumerate(groups))
    network = Network(2 * (count - 1) / count / exchange)
    return Question(64, workers, 1.0, network, inside_seconds=inside, hidden_seconds=hidden)


@pytest.mark.parametrize(
    ("exchange", "inside", "hidden", "groups", "strategy", "interval"),
    [
        (0.01, 0.01, 0.0, "aabb", "Synchronous", 1),
        (0.2, 0.2, 0.0, "aabb", "Synchronous", 1),
        (0.5, 0.4, 0.5, "aabb", "Synchronous", 1),
        (0.3, 0.3, 0.0, "aaaa", "LocalSGD", 8),
        (0.5, 0.5, 0.0, "aabb", "LocalSGD", 8),
        (2.0, 2.0, 0.0, "aabb", "LocalSGD", 16),
        (2.0, 0.01, 0.0, "aaaa", "LocalSGD", 16),
        (2.0, 0.01, 0.0, "abcd", "LocalSGD", 16),
        (1.0, 0.02, 0.0, "aabb", "Hierarchical", 4),
        (1.5, 0.02, 0.0, "aabb", "Hierarchical", 8),
        (60.0, 0.02, 0.0, "aabb", "LocalSGD", 64),
    ],
    ids=[
        "a fast network", "a fifth more is not enough", "what computing hides costs nothing", "just worth it",
        "half a step", "a slow network", "fast inside of the only group", "fast inside of groups of one",
        "fast inside of two groups", "the same, slower between them", "between them it takes a minute",
    ],
)  # fmt: skip
def test_the_choice_follows_what_an_exchange_takes(
    exchange: float, inside: float, hidden: float, groups: str, strategy: str, interval: int
) -> None:
    found = choose(question(exchange, inside, hidden, groups))
    assert (found.strategy, found.interval) == (strategy, interval), found.why


@pytest.mark.parametrize("exchange", [0.001 * 1.3**k for k in range(45)])
@pytest.mark.parametrize("inside", [0.01, 0.3, 1.0])
def test_whatever_is_chosen_is_a_clear_gain_and_near_the_fastest(exchange: float, inside: float) -> None:
    asked = question(exchange, inside * exchange)
    base = synchronous(asked, balanced(asked), "").samples_per_second
    speeds = {("Synchronous", 1): base}
    for interval in (2, 4, 8, 16, 32, 64):
        local = local_sgd(replace(asked, local_batch=None, local_interval=interval))
        groups = hierarchical(replace(asked, interval=interval))
        speeds["LocalSGD", interval] = local.samples_per_second
        speeds["Hierarchical", interval] = groups.samples_per_second if interval in (4, 8) else 0.0
    found, best = choose(asked), max(speeds.values())
    speed = speeds[found.strategy, found.interval]
    assert found.gain == pytest.approx(speed / base)
    assert speed >= NEAR_BEST * best or (found.strategy == "Synchronous" and best < LEAST_GAIN * base)
    assert found.strategy == "Synchronous" or speed >= LEAST_GAIN * base


def test_a_round_does_not_take_minutes_because_who_joins_or_leaves_waits_for_it() -> None:
    for seconds, interval in ((1.0, 64), (10.0, 8), (200.0, 2)):
        asked = question(60.0 * seconds)
        slow = tuple(replace(worker, speed=worker.speed / seconds) for worker in asked.workers)
        assert choose(replace(asked, workers=slow)).interval == interval


def test_the_sentence_says_what_was_measured_and_what_it_brings() -> None:
    assert choose(question(2.0, 2.0)).why == (
        "an exchange takes 67% of a step: 2.7 × the samples per second of Synchronous, with a merge every 16 steps"
    )
    assert choose(question(0.1)).why == (
        "an exchange takes 9% of a step: LocalSGD would have 1.10 × its samples per second, and less than 1.25 × is not"
        " worth another result"
    )
    assert choose(question(1.0, groups="a")).why == "one worker has nobody to exchange with"
