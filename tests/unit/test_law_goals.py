"""The default law keeps its promises on a few cells of `benchmarks/laws.py`; seeded, so it never flickers."""

import pytest
from benchmarks import arms
from benchmarks.grid import Cell
from benchmarks.rules import Printed, Released

from omnilearn_core.control.reports import Member, Report, Situation


def steady(level: int, fixed_share: float, noise: float, scales: bool = False) -> dict[str, dict[str, float]]:
    figures: dict[str, dict[str, float]] = arms.steady(Cell(level, 4, fixed_share, scales, noise, 4))["arms"]
    return figures


@pytest.mark.parametrize("level", [1, 2, 4, 8])
@pytest.mark.parametrize("fixed_share", [0.0, 0.5, 0.85])
def test_affine_stays_within_two_percent_of_the_oracle_at_three_percent_noise(level: int, fixed_share: float) -> None:
    assert steady(level, fixed_share, 0.03)["Affine"]["steady"] <= 1.02


@pytest.mark.parametrize("level", [1, 8])
def test_affine_stays_within_five_percent_of_the_oracle_at_eight_percent_noise(level: int) -> None:
    assert steady(level, 0.3, 0.08)["Affine"]["steady"] <= 1.05


@pytest.mark.parametrize("scales", [False, True])
def test_affine_is_not_behind_proportional_or_the_released_rule(scales: bool) -> None:
    figures = steady(8, 0.3, 0.03, scales)
    assert figures["Affine"]["run"] <= 1.01 * min(figures[rival]["run"] for rival in ("Proportional", "Released"))


def test_affine_is_within_five_percent_two_windows_after_a_change_of_level() -> None:
    after = arms.change(Cell(2, 4, 0.2, False, 0.03, 6, to_level=8))["arms"]["Affine"]
    assert after[2] <= 1.05


def test_the_schedule_is_run_at_least_1_66_times_as_fast_as_uniform_when_told_the_quotas() -> None:
    figures = arms.schedule(Cell(1, 4, 0.2, False, 0.02, 3))["arms"]
    assert figures["Affine (told quotas)"] >= 1.66
    assert figures["Affine"] >= 0.985 * figures["One window late"]


def situation(times: dict[str, float], shares: dict[str, int]) -> Situation:
    members = tuple(Member(worker) for worker in times)
    reports = tuple(Report(worker, shares.get(worker, 0), seconds, 1.0) for worker, seconds in times.items())
    return Situation(128, members, 1.0, reports)


def test_the_printed_rule_does_not_keep_the_global_batch() -> None:
    times = {f"w{k}": 12 / cores for k, cores in enumerate((9, 9, 6, 24))}
    shares, _ = Printed().split(situation(times, {}), ())
    assert sum(shares.values()) == pytest.approx(128 * 1.29, rel=0.01)


def test_the_released_rule_parks_beside_the_optimum() -> None:
    rule, shares = Released(), dict.fromkeys(("w0", "w1", "w2", "w3"), 32)
    for _ in range(20):
        times = {worker: shares[worker] / cores for worker, cores in zip(shares, (6, 6, 4, 32), strict=True)}
        shares, _ = rule.split(situation(times, shares), ())
    assert max(shares[worker] / cores for worker, cores in zip(shares, (6, 6, 4, 32), strict=True)) > 1.3 * 128 / 48
