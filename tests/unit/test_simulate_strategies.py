"""The model of what each strategy costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from omnilearn_core.simulate.cluster import SimulatedWorker
from omnilearn_core.simulate.strategies import Estimate, Network, Question, asynchronous, balanced, estimates

FAST = Network(bytes_per_second=1e12)
# OmniLearn's asynchronous layout at heterogeneity level 8: 4, 4, 4 and 28 cores
HL8 = tuple(SimulatedWorker(f"w{i}", speed, group="a" if i < 3 else "b") for i, speed in enumerate((4, 4, 4, 28)))
QUESTION = Question(1280, HL8, model_bytes=4e6, network=FAST)


def by_name(question: Question) -> dict[str, Estimate]:
    return {each.strategy: each for each in estimates(question)}


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
