"""What the workers wrote down: read, merged, audited, and made into figures."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnilearn_cli.local import figures, traces, uses
from omnilearn_cli.local.audit import Audit, audit, audit_round, covered_length
from omnilearn_cli.local.traces import Line, Round

MEMBERS = ("a", "b")


def line(number: int, mine: list[tuple[int, int]], **other: Any) -> Line:
    """Return a line of round `number` whose step has eight samples."""
    fields: dict[str, Any] = {
        "round": number,
        "step": number,
        "kind": "step",
        "time": 100.0 + number,
        "generation": "1.ab",
        "members": MEMBERS,
        "plan": 1,
        "interval": (8 * (number - 1), 8 * number),
        "mine": mine,
        "samples": 8,
        "seconds": {"step": 1.0, "compute": 0.5},
    }
    return Line.model_validate({**fields, **other})


def rounds_of(*lines: tuple[str, Line]) -> list[Round]:
    told: dict[str, list[Line]] = {}
    for worker, one in lines:
        told.setdefault(worker, []).append(one)
    return traces.merge(told)


def whole(number: int, cut: int = 5, **other: Any) -> list[tuple[str, Line]]:
    """Return both lines of a round, `a` computing the first `cut` samples."""
    low = 8 * (number - 1)
    return [
        ("a", line(number, [(low, low + cut)], **other)),
        ("b", line(number, [(low + cut, low + 8)], **other)),
    ]


def test_half_a_line_is_skipped_and_counted() -> None:
    good = line(1, [(0, 8)]).model_dump_json()
    lines, bad = traces.read_lines(f"{good}\n{good[:40]}")
    assert (len(lines), bad) == (1, 1)


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", '{"round": -1}', "\x00"])
def test_what_is_no_line_is_no_error(text: str) -> None:
    assert traces.read_lines(text)[0] == []


def test_the_attempts_of_a_worker_are_one_trace(tmp_path: Path) -> None:
    for attempt in (0, 1):
        (tmp_path / f"job-big-0-{attempt}.jsonl").write_text(line(attempt + 1, []).model_dump_json() + "\n")
    found, _ = traces.read_traces(tmp_path)
    assert [one.round for one in found["job-big-0"]] == [1, 2]


def test_rounds_are_merged_into_one_line_each(tmp_path: Path) -> None:
    traces.write_rounds(rounds_of(*whole(1), *whole(2)), tmp_path / "steps.jsonl")
    written = [json.loads(text) for text in (tmp_path / "steps.jsonl").read_text().splitlines()]
    assert [one["round"] for one in written] == [1, 2]
    assert written[0]["parts"]["b"]["mine"] == [[5, 8]]


def test_the_newest_generation_tells_what_a_round_was() -> None:
    lost = ("a", line(1, [(0, 5)], generation="9.ab"))
    anew = ("b", line(1, [(0, 8)], generation="10.ab", members=["b"]))
    (one,) = rounds_of(lost, anew)
    assert (one.generation, one.superseded, list(one.parts)) == ("10.ab", 1, ["b"])


@settings(derandomize=True, max_examples=50)
@given(st.lists(st.integers(0, 8), min_size=1, max_size=10))
def test_steps_that_everybody_wrote_down_are_clean_however_they_are_split(cuts: list[int]) -> None:
    found = audit(rounds_of(*(one for place, cut in enumerate(cuts) for one in whole(place + 1, cut))))
    assert found == Audit(rounds=len(cuts), samples=8 * len(cuts))


@settings(derandomize=True, max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 10)), max_size=8))
def test_covered_length_counts_positions_once(pieces: list[tuple[int, int]]) -> None:
    intervals = sorted((low, low + size) for low, size in pieces)
    assert covered_length(intervals) == len({place for low, high in intervals for place in range(low, high)})


def test_a_gap_is_lost_if_everybody_wrote_and_unseen_if_somebody_died() -> None:
    a, b = ("a", line(1, [(0, 5)])), ("b", line(1, [(6, 8)]))
    assert audit_round(*rounds_of(a, b)).lost == 1
    alone = audit_round(*rounds_of(a))
    assert (alone.lost, alone.unseen, alone.clean) == (0, 3, True)


def test_samples_computed_twice_or_of_another_round_are_found() -> None:
    found = audit_round(*rounds_of(("a", line(1, [(0, 6)])), ("b", line(1, [(5, 8), (20, 22)]))))
    assert (found.doubled, found.outside, found.clean) == (1, 2, False)
    assert "round 1: 0 samples lost, 1 doubled, 2 of other rounds" in found.findings


def test_steps_of_an_epoch_follow_each_other() -> None:
    overlapping = whole(2, interval=(7, 16))
    assert audit(rounds_of(*whole(1), *overlapping)).doubled >= 1
    assert audit(rounds_of(*whole(1), *whole(2, epoch=1))).clean
    assert audit(rounds_of(*whole(1), *whole(3))).missing_rounds == 1


def test_an_evaluation_is_no_part_of_the_epoch() -> None:
    seen = ("a", line(2, [(0, 8)], kind="evaluation", interval=(0, 8), members=["a"]))
    last = [(worker, one.model_copy(update={"round": 3})) for worker, one in whole(2)]
    assert audit(rounds_of(*whole(1), seen, *last)).clean


def speedy(number: int, a: float, b: float) -> list[tuple[str, Line]]:
    """Return a round in which both compute four samples, in so many seconds."""
    low = 8 * (number - 1)
    return [
        ("a", line(number, [(low, low + 4)], seconds={"step": 1.0, "compute": a})),
        ("b", line(number, [(low + 4, low + 8)], seconds={"step": 1.0, "compute": b / 2, "load": b / 2})),
    ]


def test_equal_shares_take_as_long_as_the_slowest_does() -> None:
    steps = rounds_of(*speedy(1, 0.4, 0.8), *speedy(2, 0.4, 0.8))
    assert figures.uniform_seconds(steps) == pytest.approx(1.6)


def test_a_speed_follows_its_worker_within_the_window() -> None:
    steps = rounds_of(*(one for number in range(1, 31) for one in speedy(number, 0.4 if number < 10 else 0.8, 0.2)))
    measured = list(figures.speeds(steps))
    assert measured[0]["a"] == pytest.approx(10.0)
    assert measured[-1] == pytest.approx({"a": 5.0, "b": 20.0})


def test_a_worker_without_samples_has_no_speed_and_does_not_count() -> None:
    steps = rounds_of(*whole(1, cut=8))
    assert list(figures.speeds(steps)) == [{"a": 16.0}]
    assert figures.uniform_seconds(steps) == pytest.approx(4 / 16.0)


def test_a_round_in_which_members_changed_says_nothing_of_speeds() -> None:
    slow = [(worker, one.model_copy(update={"disturbed": True})) for worker, one in speedy(2, 4.0, 8.0)]
    assert list(figures.speeds(rounds_of(*speedy(1, 0.4, 0.8), *slow)))[1] == pytest.approx({"a": 10.0, "b": 5.0})


def test_one_step_in_which_a_worker_was_frozen_does_not_make_it_slow() -> None:
    steps = rounds_of(*(one for number in range(1, 11) for one in speedy(number, 30.0 if number == 7 else 0.4, 0.8)))
    assert list(figures.speeds(steps))[-1]["a"] == pytest.approx(10.0)


def test_the_shares_that_were_are_measured_like_equal_ones() -> None:
    steps = rounds_of(*speedy(1, 0.4, 0.8))
    assert figures.compute_seconds(steps) == pytest.approx(figures.uniform_seconds(steps))


def test_where_the_time_went_is_told_in_parts_of_it() -> None:
    found = figures.member_figures(rounds_of(*speedy(1, 0.4, 0.8)))
    assert found["b"] == figures.MemberFigures(5.0, 0.4, 0.4, 0.0, 0.0)


def test_parts_are_never_more_than_the_whole() -> None:
    assert sum(figures.fractions(1.0, compute=2.0, wait=2.0).values()) == pytest.approx(1.0)
    assert figures.fractions(0.0, compute=0.0) == {"compute": 0.0}


def test_a_plan_that_comes_with_a_generation_is_no_change_of_plan() -> None:
    steps = rounds_of(*whole(1), *whole(2, plan=2), *whole(3, plan=5, generation="2.ab"))
    assert figures.plan_changes(steps) == 1
    assert figures.generations(steps) == 2


def test_the_time_of_a_run_begins_with_its_first_step() -> None:
    assert figures.elapsed(rounds_of(*whole(1), *whole(3))) == pytest.approx(3.0)
    assert figures.elapsed([]) == 0.0


def gradient(
    number: int, mine: tuple[int, int], server: tuple[int, int], *kept: tuple[int, int], epoch: int = 0
) -> Line:
    """Return the line of a gradient of a pass with forty samples."""
    return line(number, [mine], kind="gradient", interval=(0, 40), server=server, kept=kept, epoch=epoch)


def test_what_a_later_server_did_not_keep_is_undone() -> None:
    lost, taken = gradient(2, (8, 16), (1, 0)), gradient(3, (16, 24), (1, 0))
    again = gradient(3, (8, 16), (2, 2), (0, 8), (16, 24))
    told = rounds_of(("a", gradient(1, (0, 8), (1, 0))), ("a", lost), ("b", taken), ("b", again))
    assert lost not in [one.any for one in told]
    # It was collected before round 2, like the lost one, but used: rounds do not tell.
    assert taken in [one.any for one in told]
    found = audit(told)
    assert (found.samples, found.doubled, found.unseen) == (24, 0, 16)


def test_a_sample_that_a_later_server_kept_and_gave_out_again_is_doubled() -> None:
    told = rounds_of(("a", gradient(1, (0, 8), (1, 0))), ("b", gradient(2, (0, 8), (2, 1), (0, 8))))
    assert audit(told).doubled == 8


def test_a_server_that_goes_back_to_an_earlier_pass_undoes_the_later_one() -> None:
    later, earlier = gradient(9, (0, 8), (1, 8), epoch=1), gradient(6, (32, 40), (2, 5), (0, 32))
    assert [one.any for one in rounds_of(("a", later), ("a", earlier))] == [earlier]


def test_the_staleness_of_a_worker_is_the_mean_and_the_largest_of_what_was_applied() -> None:
    delays = [(1, 0), (2, 3), (3, 6)]
    told = [("a", gradient(n, (8 * n, 8 * n + 8), (1, 0)).model_copy(update={"delay": d})) for n, d in delays]
    discarded = gradient(4, (0, 0), (1, 0)).model_copy(update={"delay": 40, "mine": ()})
    found = figures.member_figures(figures.training(rounds_of(*told, ("a", discarded))))
    assert (found["a"].staleness, found["a"].max_staleness) == (3.0, 6)


def test_how_often_each_sample_was_used_is_told_where_it_is_not_once_in_each_pass(tmp_path: Path) -> None:
    biased = [
        ("a", line(1, [(0, 4)], used=(0, 1, 2, 3), size=9)),
        ("b", line(1, [(4, 8)], used=(7, 7, 7, 0), size=9)),
    ]
    found = uses.uses_of(rounds_of(*biased))
    assert found == [2, 1, 1, 1, 0, 0, 0, 3, 0]
    assert uses.by_number(found) == {0: 4, 1: 3, 2: 1, 3: 1}
    uses.write_uses(found, tmp_path / "samples.csv")
    assert (tmp_path / "samples.csv").read_text().splitlines()[:3] == ["sample,uses", "0,2", "1,1"]
    assert uses.uses_of(rounds_of(*whole(1))) is None
