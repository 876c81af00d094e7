"""The pure parts of `benchmarks.accuracy`: what it reads, compares and judges."""

from __future__ import annotations

import pytest
from benchmarks import accuracy, plain
from benchmarks.accuracy import Pair, curve_of, interval_of, judge, spread_of

from omnilearn_runtime.ledger import epoch_order

IMAGE = 1 / accuracy.TEST_IMAGES


def pair(seed: int, plain_end: float, workers_end: float, **changes: bool) -> Pair:
    facts = {"joined": True, "lost": True, **changes}
    curves = ((0.5, plain_end), (0.4, plain_end), (0.5, workers_end))
    return Pair(seed, *curves, 3, facts["joined"], facts["lost"], samples_amiss=0)


def test_the_plain_loop_takes_the_samples_in_the_order_of_a_job() -> None:
    assert plain.order(50, 3, 2).tolist() == epoch_order(50, 3, 2, True).tolist()


def test_the_curve_is_read_from_the_lead_s_log_whoever_that_was() -> None:
    first = "warming up\nepoch   1 of 15: accuracy 90.0%\nepoch   2 of 15: accuracy 98.1%\n"
    assert curve_of([first, "", "epoch   3 of 15: accuracy 97.2%\n"]) == [324 / 360, 353 / 360, 350 / 360]


def test_an_interval_is_student_s() -> None:
    mean, half = interval_of([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert half == pytest.approx(4.303 / 3**0.5)


def test_the_spread_is_never_below_one_image() -> None:
    assert spread_of([pair(0, 0.98, 0.98), pair(1, 0.98, 0.98)]) == IMAGE


def test_equal_accuracies_meet_all_goals() -> None:
    assert all(verdict.met for verdict in judge([pair(0, 0.98, 0.98), pair(1, 0.97, 0.97)]))


def test_a_worse_mean_is_told() -> None:
    mean, largest, *_ = judge([pair(0, 0.98, 0.90), pair(1, 0.98, 0.90)])
    assert not mean.met
    assert not largest.met
    assert "-8.00%" in mean.measured


def test_a_run_without_a_join_is_told() -> None:
    *_, changes = judge([pair(0, 0.98, 0.98), pair(1, 0.98, 0.98, joined=False)])
    assert (changes.measured, changes.met) == ("1", False)


def test_a_net_that_stays_behind_on_the_way_is_seen() -> None:
    found = Pair(0, (0.5, 0.9), (0.4, 0.9), (0.3, 0.9), 1, True, True, 0)
    assert found.widest == pytest.approx(0.2)
    assert found.widest_of_rounding == pytest.approx(0.1)


def test_the_table_has_a_row_for_each_seed_and_the_mean() -> None:
    assert accuracy.table_of([pair(0, 0.98, 0.98), pair(1, 0.97, 0.98)]).row_count == 3
