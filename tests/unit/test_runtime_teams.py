"""Groups of the manifest inside a generation, and rounds of several global batches: who computes what, and when."""

from __future__ import annotations

import pytest

from omnilearn_core.api.messages import Change
from omnilearn_runtime.division import Division
from omnilearn_runtime.group import team_of
from omnilearn_runtime.ledger import Intervals
from omnilearn_runtime.passes import Passes
from omnilearn_runtime.rollcall import Record, judge
from omnilearn_runtime.timing import Lap, Windows
from omnilearn_runtime.work import batches_of

NAMES = ["job-a-0", "job-b-0", "job-b-1"]


def courses(*each: str) -> list[Record]:
    return [Record(3, "model", course=course) for course in each]


@pytest.mark.parametrize(("worker", "team"), [("job-big-0", "job-big"), ("my-job-a-b-12", "my-job-a-b")])
def test_a_worker_is_of_the_group_that_its_name_says(worker: str, team: str) -> None:
    assert team_of(worker) == team


def test_teams_may_have_optimizers_of_their_own() -> None:
    assert not judge(courses("x", "y", "y"), NAMES, Change.URGENT, 0).unlike


def test_members_of_a_team_must_have_the_same_optimizer() -> None:
    assert judge(courses("y", "x", "y"), NAMES, Change.URGENT, 0).unlike


def test_who_is_healed_anyway_is_not_asked_for_its_optimizer() -> None:
    records = [*courses("x", "y"), Record(2, "model", course="old")]
    verdict = judge(records, NAMES, Change.URGENT, 0)
    assert (verdict.needy, verdict.unlike) == (frozenset({2}), False)


def test_a_record_carries_the_optimizer() -> None:
    record = Record(3, "model", course="x")
    assert Record.from_tensor(record.to_tensor()) == record


def test_a_round_is_global_batches_one_after_the_other() -> None:
    assert batches_of(Intervals.of((8, 27)), 8) == [Intervals.of(each) for each in ((8, 16), (16, 24), (24, 27))]


def test_everybody_has_a_part_of_every_global_batch() -> None:
    division = Division()
    division.enter(1, [2, 6], 1, Intervals.of())
    parts = division.parts(batches_of(Intervals.of((0, 20)), 8), 5, 8, 0, ahead=False)
    assert [own for own, _ in parts] == [Intervals.of(each) for each in ((0, 2), (8, 10), (16, 17))]


def test_a_round_ahead_has_the_shares_that_will_be_in_force() -> None:
    division = Division()
    division.enter(1, [4, 4], 1, Intervals.of())
    division.commit(2, [6, 2])
    steps = [Intervals.of((0, 8))]
    assert division.parts(steps, 5, 8, 0, ahead=False)[0][0].size == division.share(0, ahead=False) == 4
    assert division.parts(steps, 6, 8, 0, ahead=True)[0][0].size == division.share(0, ahead=True) == 6


def test_a_window_counts_steps_and_not_rounds() -> None:
    windows = Windows()
    windows.add(1, 8, Lap(step=4.0), 0.5, steps=4)
    windows.add(1, 8, Lap(step=3.0), 0.5, steps=3)
    window = windows.take(5)
    assert window is not None
    assert (window.steps, window.total.step) == (7, 7.0)


@pytest.mark.parametrize(
    ("planned", "total", "left", "expected"),
    [(None, 1, 1, None), (None, 5, 5, 5), (None, 5, 1, 1), (3, 1, 1, 3), (3, 2, 1, 5)],
)
def test_how_many_passes_are_left_is_known_if_the_script_says_so(
    planned: int | None, total: int, left: int, expected: int | None
) -> None:
    passes = Passes()
    passes.planned = planned
    assert passes.left(total, left) == expected
