"""The simulated cluster does what it says."""

from dataclasses import replace

import pytest

from omnilearn_core.control.laws import LAWS
from omnilearn_core.control.shares import ImpossibleSplitError
from omnilearn_core.simulate.cluster import Joins, Leaves, Scenario, SimulatedWorker, SpeedChange, When
from omnilearn_core.simulate.run import LawController, Oracle, Trace, simulate

FAST = SimulatedWorker("fast", speed=300.0, group="fast")
SLOW = SimulatedWorker("slow", speed=100.0, group="slow")


def scenario(**changes: object) -> Scenario:
    base = Scenario(global_batch=40, workers=(FAST, SLOW), steps=30, window_steps=3, window_seconds=0.0)
    return replace(base, **changes)  # type: ignore[arg-type]


def under(law: str, run: Scenario) -> Trace:
    return simulate(run, LawController(LAWS[law]))


def test_a_step_takes_as_long_as_its_slowest_worker_and_the_reduction() -> None:
    trace = under("Uniform", scenario(reduction_seconds=0.05))
    assert trace.windows[0].step_seconds == pytest.approx(20 / 100 + 0.05)
    assert trace.seconds == pytest.approx(30 * 0.25)
    assert trace.samples_per_second == pytest.approx(40 / 0.25)


def test_the_oracle_gives_shares_in_proportion_to_speeds_without_fixed_cost() -> None:
    assert simulate(scenario(), Oracle()).windows[0].shares == {"fast": 30, "slow": 10}


def test_fixed_cost_counts_per_piece_that_fits_into_memory() -> None:
    worker = SimulatedWorker("w", speed=10.0, fixed_seconds=1.0, memory_samples=5)
    assert worker.seconds(5) == pytest.approx(1.5)
    assert worker.seconds(6) == pytest.approx(2.6)
    assert worker.seconds(0) == 0.0


def test_fixed_cost_in_samples_scales_with_the_speed() -> None:
    worker = SimulatedWorker("w", speed=10.0, fixed_samples=5.0)
    assert worker.at_speed(2.0, told=False).fixed == pytest.approx(worker.fixed / 2)


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    noisy = scenario(workers=(replace(FAST, noise=0.05), replace(SLOW, noise=0.05)))
    assert under("Affine", noisy) == under("Affine", noisy)
    assert under("Affine", noisy).seconds != under("Affine", replace(noisy, seed=1)).seconds


def test_a_window_ends_where_an_event_is_due() -> None:
    trace = under("Uniform", scenario(events=(Leaves(When(step=10), "slow"),)))
    assert [w.first_step for w in trace.windows[:5]] == [0, 3, 6, 9, 10]
    assert trace.windows[4].events == ("slow is lost",)
    assert trace.windows[4].shares == {"fast": 40}


def test_events_happen_at_a_time_as_well() -> None:
    trace = under("Uniform", scenario(events=(SpeedChange(When(seconds=1.0), "slow", 0.5),)))
    changed = next(w for w in trace.windows if w.events)
    assert changed.began == pytest.approx(1.0)
    assert changed.seconds["slow"] == pytest.approx(0.4)


def test_a_joiner_gets_a_share_in_its_first_window() -> None:
    joiner = SimulatedWorker("new", speed=100.0, group="slow")
    trace = under("Affine", scenario(events=(Joins(When(step=15), joiner),)))
    window = next(w for w in trace.windows if w.events)
    assert window.shares["new"] == window.shares["slow"] == 8


def test_a_told_quota_change_is_fed_forward_in_zero_windows() -> None:
    workers = (replace(FAST, quota=3.0), replace(SLOW, quota=1.0))
    lost = {}
    for told in (True, False):
        events = (SpeedChange(When(step=15), "fast", 1 / 3, told),)
        trace = under("Affine", scenario(workers=workers, events=events))
        window = next(w for w in trace.windows if w.events)
        lost[told] = window.expected_seconds / window.oracle_seconds
    assert lost[True] < 1.12
    assert lost[False] == pytest.approx(1.5, abs=0.02)


def test_losing_all_workers_gets_a_sentence() -> None:
    events = (Leaves(When(step=3), "fast"), Leaves(When(step=6), "slow"))
    with pytest.raises(ImpossibleSplitError, match="all workers are lost at step 6"):
        under("Uniform", scenario(events=events))


def test_per_epoch_changes_the_plan_only_between_epochs() -> None:
    trace = under("PerEpoch", scenario(steps=60, steps_per_epoch=20))
    changed = [b.first_step for a, b in zip(trace.windows, trace.windows[1:], strict=False) if a.shares != b.shares]
    assert changed == [21]
