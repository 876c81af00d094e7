"""When groups merge: the phases, the interval that follows the loss, and what a merge weighs."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from omnilearn_core.api.strategy import Hierarchical
from omnilearn_runtime.strategies.rhythm import Rhythm, is_cycling, kept, wait_of

USUAL = Hierarchical()


def intervals(losses: Iterable[float], options: Hierarchical = USUAL) -> list[int]:
    """Return the interval after each of some epochs."""
    rhythm, found = Rhythm(options.interval), []
    for loss in losses:
        rhythm = rhythm.saw(loss * 100, 100).after_pass(options, merging=True)
        found.append(rhythm.interval)
    return found


def test_the_interval_stays_while_the_loss_falls() -> None:
    assert intervals([1.0, 0.9, 0.8, 0.7, 0.6]) == [4] * 5


def test_two_epochs_without_a_twentieth_less_halve_it() -> None:
    assert intervals([1.0, 0.96, 0.97, 0.96, 0.955]) == [4, 4, 2, 2, 1]


def test_one_good_epoch_begins_the_count_anew() -> None:
    assert intervals([1.0, 0.99, 0.9, 0.89, 0.8]) == [4] * 5


def test_small_steps_add_up_to_an_improvement() -> None:
    assert intervals([1.0, 0.96, 0.94, 0.91, 0.89]) == [4] * 5


def test_an_interval_of_one_that_does_not_help_becomes_the_longest() -> None:
    assert intervals([1.0] * 9) == [4, 4, 2, 2, 1, 1, 8, 8, 4]


def test_warm_up_and_cool_down_change_no_interval_but_are_what_others_are_compared_with() -> None:
    rhythm = Rhythm(4)
    for _ in range(5):
        rhythm = rhythm.saw(100.0, 100).after_pass(USUAL, merging=False)
    assert (rhythm.interval, rhythm.best, rhythm.bad) == (4, 1.0, 0)


def test_the_loss_of_an_epoch_is_the_mean_over_its_samples() -> None:
    assert Rhythm(4).saw(30.0, 10).saw(10.0, 30).after_pass(USUAL, merging=True).best == 1.0


def test_an_epoch_of_nothing_but_skipped_merges_says_nothing() -> None:
    rhythm = Rhythm(4, best=2.0, bad=1).after_pass(USUAL, merging=True)
    assert rhythm == Rhythm(4, best=2.0, bad=1)


def test_a_rhythm_survives_a_heal() -> None:
    rhythm = Rhythm(2, 0.5, 1, 3.0, 4.0)
    assert Rhythm(**rhythm.to_tree()) == rhythm


@pytest.mark.parametrize(
    ("pass_", "left", "cycling"),
    [(0, 10, False), (1, 9, True), (8, 2, True), (9, 1, False), (0, None, False), (5, None, True), (0, 1, False)],
)
def test_groups_go_on_while_merging_between_warm_up_and_cool_down(pass_: int, left: int | None, cycling: bool) -> None:
    assert is_cycling(USUAL, pass_, left) == cycling


def test_without_warm_up_and_cool_down_they_always_do() -> None:
    options = Hierarchical(warmup_epochs=0, cooldown_epochs=0)
    assert all(is_cycling(options, pass_, 3 - pass_) for pass_ in range(3))


@pytest.mark.parametrize(("wait", "steps", "expected"), [(1, 4, 1), (3, 4, 3), (4, 4, 4), (3, 2, 2), (2, 1, 1)])
def test_a_merge_is_taken_in_before_the_next_one_begins(wait: int, steps: int, expected: int) -> None:
    assert wait_of(Hierarchical(wait=wait), steps) == expected


def test_the_longer_a_merge_was_on_its_way_the_less_it_weighs() -> None:
    assert [kept(2, waited) for waited in (1, 2, 3)] == [0.5, 2 / 3, 0.75]
    assert kept(8, 1) == 0.2


def test_a_group_alone_keeps_its_model() -> None:
    assert kept(1, 3) == 1.0
