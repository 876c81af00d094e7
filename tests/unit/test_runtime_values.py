"""The pure parts of the runtime: control element, roll call, progress, pieces, clocks, faults, environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from omnilearn_core.api.messages import Change, GenerationId, Plan
from omnilearn_runtime.element import Kind, Part, Whole, from_vector, thick, thin, to_vector
from omnilearn_runtime.environment import BadEnvironmentError, read
from omnilearn_runtime.faults import Faults, InjectedError, Point
from omnilearn_runtime.feeding import Feeder
from omnilearn_runtime.ledger import Intervals, checksum
from omnilearn_runtime.progress import Progress
from omnilearn_runtime.rollcall import Record, UnlikeError, judge
from omnilearn_runtime.timing import Lap, Phase, Stopwatch, Windows
from omnilearn_runtime.work import Open, pieces

NAMES = ["a", "b", "c"]


def plan(version: int, *shares: int) -> Plan:
    id_ = GenerationId(number=1, nonce="n")
    return Plan(generation=id_, version=version, global_batch=sum(shares), shares=dict(zip(NAMES, shares, strict=True)))


def together(*parts: Part) -> Whole:
    """Return what members see together; the same, however the element travels."""
    plain = len(parts[0].touched)
    vectors = [to_vector(part, rank, NAMES[: len(parts)]) for rank, part in enumerate(parts)]
    whole = from_vector(torch.stack(vectors).sum(0), parts[0], len(parts))
    thinned = torch.stack([thin(each, plain) for each in vectors]).sum(0)
    assert from_vector(thick(thinned, plain), parts[0], len(parts)) == whole
    return whole


# The control element


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 2**40)), min_size=3, max_size=3))
def test_counts_and_checksums_add_up_exactly(said: list[tuple[int, int]]) -> None:
    whole = together(*(Part(Kind.STEP, 7, samples=n, checksum=c) for n, c in said))
    assert (whole.samples, whole.checksum) == (sum(n for n, _ in said), sum(c for _, c in said))
    assert whole.agreed


@pytest.mark.parametrize("odd", [Part(Kind.STEP, 8), Part(Kind.EVALUATION, 7), Part(Kind.EMPTY, 6)])
def test_members_at_different_places_see_it(odd: Part) -> None:
    assert not together(Part(Kind.STEP, 7), odd, Part(Kind.STEP, 7)).agreed


def test_only_the_plan_of_rank_0_counts() -> None:
    whole = together(
        Part(Kind.STEP, 1, plan=plan(5, 1, 2, 3)), Part(Kind.STEP, 1, plan=plan(9, 6, 0, 0)), Part(Kind.STEP, 1)
    )
    assert (whole.version, whole.shares) == (5, (1, 2, 3))


def test_a_generation_is_ready_when_all_name_it() -> None:
    ready, other = Part(Kind.STEP, 1, ready=5.0), Part(Kind.STEP, 1, ready=6.0)
    assert together(ready, ready, ready).ready == 5.0
    assert together(ready, other, ready).ready == 0.0
    assert together(ready, Part(Kind.STEP, 1), ready).ready == 0.0


def test_a_parameter_is_touched_if_anybody_has_a_gradient() -> None:
    first = Part(Kind.STEP, 1, touched=torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64))
    second = Part(Kind.STEP, 1, touched=torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64))
    assert together(first, second).touched == (True, True, False)


# The roll call


def records_of(rounds: list[int], cuts: list[int], fresh: list[bool]) -> list[Record]:
    """Return records in which those at the top hold disjoint parts."""
    edges = [0, *sorted(cuts)]
    held = [Intervals.of((low, high)) for low, high in zip(edges, [*edges[1:], edges[-1] + 1], strict=True)]
    return [Record(r, "m", fresh=f, held=h) for r, f, h in zip(rounds, fresh, held, strict=False)]


@settings(max_examples=100)
@given(
    rounds=st.lists(st.integers(3, 4), min_size=3, max_size=3),
    cuts=st.lists(st.integers(1, 50), min_size=2, max_size=2, unique=True),
    fresh=st.lists(st.booleans(), min_size=3, max_size=3).filter(lambda each: not all(each)),
)
def test_all_conclude_the_same_and_the_highest_committed_round_wins(
    rounds: list[int], cuts: list[int], fresh: list[bool]
) -> None:
    records = records_of(rounds, cuts, fresh)
    verdicts = [judge(records, NAMES, Change.URGENT, rank) for rank in range(3)]
    verdict = verdicts[0]
    assert all(each == verdict for each in verdicts)
    there = [i for i in range(3) if not fresh[i] and rounds[i] == verdict.top]
    assert verdict.top == max(rounds[i] for i in range(3) if not fresh[i])
    assert verdict.source == there[0]
    assert verdict.needy == set(range(3)) - set(there)
    assert verdict.held.size == sum(records[i].held.size for i in there)


def test_a_record_survives_its_way() -> None:
    record = Record(5, "model", "values", True, 2, Intervals.of((1, 4), (9, 12)))
    assert Record.from_tensor(record.to_tensor()) == record


def test_a_start_with_unlike_models_is_refused_by_everybody_and_later_only_by_the_joiner() -> None:
    start = [Record(0, "m"), Record(0, "other")]
    for rank in range(2):
        with pytest.raises(UnlikeError, match="names, shapes and types") as caught:
            judge(start, NAMES, Change.START, rank)
        assert caught.value.everywhere
    later = [Record(3, "m"), Record(0, "other", fresh=True)]
    assert judge(later, NAMES, Change.PLANNED, 0).needy == {1}
    with pytest.raises(UnlikeError) as caught:
        judge(later, NAMES, Change.PLANNED, 1)
    assert not caught.value.everywhere


@pytest.mark.parametrize(
    ("records", "sentence"),
    [
        ([Record(0, "m", "x"), Record(0, "m", "y")], "begin with different parameters"),
        ([Record(1, "m", kind=1), Record(1, "m", kind=2)], "some workers evaluate while others train"),
        ([Record(1, "m", held=Intervals.of((0, 4)))] * 2, "two workers hold the same samples"),
    ],
)
def test_what_must_not_be_is_said(records: list[Record], sentence: str) -> None:
    with pytest.raises(UnlikeError, match=sentence):
        judge(records, NAMES, Change.START, 0)


# Progress and work


@given(st.integers(0, 30), st.integers(0, 30))
def test_the_audit_counts_what_is_missing_or_too_much(wanted: int, got: int) -> None:
    found = Progress().audited((wanted, checksum(Intervals.of((0, wanted)))), (got, checksum(Intervals.of((0, got)))))
    assert (found.lost, found.doubled) == (max(wanted - got, 0), max(got - wanted, 0))


def test_as_many_samples_but_others_are_one_lost_and_one_doubled() -> None:
    found = Progress().audited((4, checksum(Intervals.of((0, 4)))), (4, checksum(Intervals.of((1, 5)))))
    assert (found.lost, found.doubled) == (1, 1)


def test_progress_survives_its_way() -> None:
    progress = Progress(round=3, step=2, epoch=1, loop=1, before=0, result={"loss": 1.5})
    assert Progress.from_tree(progress.to_tree()) == progress


@pytest.mark.parametrize(("step", "epoch", "pass_", "past"), [(0, 0, -1, False), (1, 0, -1, True), (9, 2, 2, False)])
def test_a_pass_is_past_once_a_later_one_has_begun(step: int, epoch: int, pass_: int, past: bool) -> None:
    assert Progress(step=step, epoch=epoch).is_past(pass_) is past


@given(st.integers(0, 60), st.integers(1, 9))
def test_pieces_cover_what_is_pending_and_differ_by_at_most_one(size: int, most: int) -> None:
    parts = pieces(Intervals.of((3, 3 + size)), most)
    assert Intervals.of().union(*parts).size == size
    assert all(part.size <= most for part in parts)
    assert max((p.size for p in parts), default=0) - min((p.size for p in parts), default=0) <= 1


@given(st.integers(0, 40), st.integers(1, 9), st.integers(1, 5), st.one_of(st.none(), st.integers(0, 20)))
def test_passes_end_after_so_many_steps_over_all_of_them(size: int, batch: int, epochs: int, most: int | None) -> None:
    feeder = Feeder(cast(Any, None), cast(Any, None), size, batch)
    ends = list(feeder.passes(epochs, most))
    steps = sum(-(-end // batch) for end in ends)
    all_steps = epochs * -(-size // batch)
    assert steps == (all_steps if most is None else min(most, all_steps))
    assert all(end == size for end in ends[:-1])


def test_a_loss_without_weight_does_not_count() -> None:
    opened = Open(Kind.STEP, 0, Intervals.of((0, 4)), pending=Intervals.of((0, 4)))
    opened.hold(Intervals.of((0, 2)), 2.0, 1.5)
    opened.hold(Intervals.of((2, 4)), 0.0, float("nan"))
    assert (opened.loss, opened.weight, opened.pending.size) == (3.0, 2.0, 0)


# Clocks


def test_a_lap_has_every_phase_and_splits_exposed_time_into_reducing_and_waiting() -> None:
    now = [0.0]
    watch = Stopwatch(lambda: now[0])
    for phase, seconds in ((Phase.LOAD, 1.0), (Phase.COMPUTE, 4.0), (Phase.EXPOSED, 3.0)):
        now[0] += seconds
        watch.mark(phase)
    assert watch.lap(least_exposed=2.0) == Lap(step=8.0, compute=4.0, load=1.0, reduce=2.0, wait=1.0)
    assert watch.exposed == 3.0
    assert watch.lap(0.0) == Lap()


def test_time_for_the_tail_is_known_apart_and_the_update_is_not_part_of_it() -> None:
    now = [0.0]
    watch = Stopwatch(lambda: now[0])
    for tail, phase, seconds in (
        (False, Phase.COMPUTE, 4.0),
        (True, Phase.LOAD, 0.5),
        (True, Phase.COMPUTE, 1.0),
        (False, Phase.EXPOSED, 1.0),
        (False, Phase.COMPUTE, 2.0),
    ):
        watch.in_tail = tail
        now[0] += seconds
        watch.mark(phase)
    lap = watch.lap(0.0)
    assert (lap.compute, lap.load, lap.tail) == (7.0, 0.5, 1.5)


def test_a_round_that_was_given_up_in_its_tail_leaves_nothing_behind() -> None:
    watch = Stopwatch(lambda: 0.0)
    watch.in_tail = True
    watch.mark(Phase.OTHER)
    assert not watch.in_tail


def test_a_window_has_one_share_and_is_taken_when_it_is_long_enough() -> None:
    windows = Windows()
    windows.add(1, 8, Lap(step=9.0), 0.5)
    windows.add(2, 6, Lap(step=1.0, compute=1.0), 0.4)
    assert windows.take(2) is None
    windows.add(2, 6, Lap(step=2.0, compute=1.0), 0.3)
    window = windows.take(2)
    assert window is not None
    assert (window.plan, window.share, window.steps, window.total.step, window.loss) == (2, 6, 2, 3.0, 0.3)
    assert windows.take(1) is None


# Faults and environment


def test_a_fault_happens_once_at_its_point_from_its_round_on() -> None:
    faults = Faults("reducing@5:raise")
    faults.pass_by(Point.REDUCING, 4)
    faults.pass_by(Point.COMPUTING, 6)
    with pytest.raises(InjectedError, match="reducing"):
        faults.pass_by(Point.REDUCING, 6)
    faults.pass_by(Point.REDUCING, 7)


@pytest.mark.parametrize("text", ["reducing@x:kill", "nowhere@1:kill", "reducing@1:explode"])
def test_a_fault_that_is_none_is_said_to_be_none(text: str) -> None:
    with pytest.raises(ValueError, match="write POINT@ROUND:DEED"):
        Faults(text)


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"OMNILEARN_COORDINATOR": "ws://h:1"}, "OMNILEARN_JOB and OMNILEARN_WORKER and OMNILEARN_TOKEN_FILE is not"),
        ({"OMNILEARN_GRACE_SECONDS": "soon"}, "OMNILEARN_GRACE_SECONDS is 'soon': set it to a number from 0 on"),
        ({"OMNILEARN_ATTEMPT": "-1"}, "OMNILEARN_ATTEMPT is '-1'"),
        (
            {
                "OMNILEARN_COORDINATOR": "ws://h:1",
                "OMNILEARN_JOB": "j",
                "OMNILEARN_WORKER": "w",
                "OMNILEARN_TOKEN_FILE": "/none",
            },
            "without it the worker cannot prove who it is",
        ),
    ],
)
def test_an_environment_that_cannot_be_understood_is_said_in_a_sentence(
    variables: dict[str, str], sentence: str
) -> None:
    with pytest.raises(BadEnvironmentError, match=sentence):
        read(variables)


def test_an_environment_is_read_whole(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n", encoding="utf-8")
    found = read(
        {
            "OMNILEARN_COORDINATOR": "ws://h:1",
            "OMNILEARN_JOB": "j",
            "OMNILEARN_WORKER": "w",
            "OMNILEARN_TOKEN_FILE": str(token),
        }
    )
    assert (found.job, found.worker, found.token, found.alone) == ("j", "w", "secret", False)
    assert read({}).alone
