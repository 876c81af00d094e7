"""Reports that deserve no hearing: counted by reason, and never able to move a share."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import closed_loop
import situations
from omnilearn_core.control.law import decide
from omnilearn_core.control.laws import LAWS
from omnilearn_core.control.reports import Refusal, Report, Situation
from omnilearn_core.control.shares import Slot
from situations import examples

every_law = pytest.mark.parametrize("law", LAWS.values(), ids=list(LAWS))
laws = st.sampled_from(sorted(LAWS))

SLOTS = [Slot(0.05, 0.01 * (1 + k), 1, 64) for k in range(3)]

# What a bad report looks like: made from the good one that the worker might have sent, and the time.
BAD: dict[str, tuple[Refusal, Callable[[Report, float], Report]]] = {
    "not a number": (Refusal.BROKEN, lambda r, now: r._replace(seconds=math.nan)),
    "infinite": (Refusal.BROKEN, lambda r, now: r._replace(seconds=math.inf)),
    "zero": (Refusal.BROKEN, lambda r, now: r._replace(seconds=0.0)),
    "negative": (Refusal.BROKEN, lambda r, now: r._replace(seconds=-1.0)),
    "a nanosecond": (Refusal.BROKEN, lambda r, now: r._replace(seconds=1e-9)),
    "a year": (Refusal.BROKEN, lambda r, now: r._replace(seconds=3e7)),
    "ended at no time": (Refusal.BROKEN, lambda r, now: r._replace(ended=math.nan)),
    "ended never": (Refusal.BROKEN, lambda r, now: r._replace(ended=math.inf)),
    "of no CPUs": (Refusal.BROKEN, lambda r, now: r._replace(quota=0.0)),
    "of CPUs that are no number": (Refusal.BROKEN, lambda r, now: r._replace(quota=math.nan)),
    "from the future": (Refusal.FUTURE, lambda r, now: r._replace(ended=now + 2.0)),
    "from two minutes ago": (Refusal.LATE, lambda r, now: r._replace(ended=now - 121.0)),
    "from before the last one": (Refusal.DOUBLED, lambda r, now: r._replace(ended=now - 115.0)),
    "of a larger share": (Refusal.OTHER_SHARE, lambda r, now: r._replace(share=r.share + 1)),
    "of nothing": (Refusal.OTHER_SHARE, lambda r, now: r._replace(share=0)),
    "of a negative share": (Refusal.OTHER_SHARE, lambda r, now: r._replace(share=-5)),
    "of another quota": (Refusal.OTHER_QUOTA, lambda r, now: r._replace(quota=3.0)),
    "of a stranger": (Refusal.STRANGER, lambda r, now: r._replace(worker="stranger")),
}  # fmt: skip

kinds = st.sampled_from(sorted(BAD))


def settled(law: Any, windows: int = 4) -> closed_loop.Loop:
    loop = closed_loop.lines(law, 64, SLOTS)
    loop.members = tuple(replace(member, quota=2.0) for member in loop.members)
    loop.run(windows)
    return loop


def spoiled(kind: str, report: Report, now: float) -> Report:
    return BAD[kind][1](report, now)


@pytest.mark.parametrize("kind", BAD)
@every_law
def test_a_bad_report_is_counted_by_its_reason_and_moves_nothing(law: Any, kind: str) -> None:
    loop = settled(law)
    before = loop.decision
    loop.window += 1
    bad = [spoiled(kind, report, loop.now) for report in loop.measure()]
    for _ in range(5):
        after = loop.decide(bad)
    assert after.shares == before.shares
    assert not after.changed
    assert after.state.refused == {BAD[kind][0]: 5 * len(bad)}


@examples(60)
@given(laws, st.lists(st.lists(st.tuples(kinds, st.integers(0, 2)), max_size=4), min_size=1, max_size=6))
def test_bad_reports_alone_keep_the_plan(law: str, windows: list[list[tuple[str, int]]]) -> None:
    loop = settled(LAWS[law])
    plan = loop.plan
    for bad in windows:
        loop.window += 1
        good = loop.measure()
        decision = loop.decide(spoiled(kind, good[who], loop.now) for kind, who in bad)
        assert decision.shares == plan
    assert sum(decision.state.refused.values()) == sum(len(bad) for bad in windows)


@examples(80)
@given(
    laws, st.lists(st.lists(st.tuples(kinds, st.integers(0, 2), st.integers(0, 6)), max_size=5), min_size=6, max_size=6)
)
def test_a_good_stream_leads_to_the_same_plans_with_bad_reports_mixed_in(
    law: str, windows: list[list[tuple[str, int, int]]]
) -> None:
    pure, mixed = settled(LAWS[law], 1), settled(LAWS[law], 1)
    for bad in windows:
        pure.tick()
        mixed.window += 1
        good = mixed.measure()
        reports = list(good)
        for kind, who, place in bad:
            reports.insert(place, spoiled(kind, good[who], mixed.now))
        mixed.decide(reports)
        assert mixed.plan == pure.plan
        assert mixed.decision.state.memory == pure.decision.state.memory


@every_law
def test_a_report_sent_twice_counts_once(law: Any) -> None:
    once, twice = settled(law), settled(law)
    once.tick()
    twice.window += 1
    twice.decide(2 * twice.measure())
    twice.decide(twice.measure())
    assert twice.plan == once.plan
    assert twice.decision.state.refused == {Refusal.DOUBLED: 6}


@every_law
def test_a_window_without_reports_keeps_the_plan(law: Any) -> None:
    loop = settled(law)
    plan = loop.plan
    for _ in range(20):
        loop.window += 1
        assert loop.decide(()).shares == plan


@every_law
def test_a_law_goes_on_when_one_worker_never_reports(law: Any) -> None:
    loop = settled(law, 0)
    for _ in range(10):
        loop.window += 1
        decision = loop.decide(report for report in loop.measure() if report.worker != "w1")
        assert sum(decision.shares.values()) == 64


def test_a_clock_that_was_ahead_does_not_silence_the_workers() -> None:
    loop = settled(LAWS["Affine"])
    assert loop.state is not None
    ahead = replace(loop.state, newest=dict.fromkeys(loop.plan, loop.now + 3600.0))
    situation = Situation(64, loop.members, loop.now, loop.measure())
    assert decide(loop.law, ahead, situation).state.refused == {}


@examples(100)
@given(
    laws,
    situations.possible(most=4, now=1000.0),
    st.lists(
        st.builds(
            Report,
            st.sampled_from([f"job-group-{k}" for k in range(9)]),
            st.integers(-(2**40), 2**40),
            st.floats(),
            st.floats() | st.floats(800.0, 1002.0),
            st.none() | st.floats(),
        ),
        max_size=12,
    ),
)
def test_no_report_whatever_is_in_it_makes_a_law_crash(law: str, situation: Situation, reports: list[Report]) -> None:
    state = decide(LAWS[law], None, situation).state
    echoed = [r._replace(share=state.shares[r.worker]) for r in reports if r.worker in state.shares]
    decision = decide(LAWS[law], state, replace(situation, reports=(*reports, *echoed)))
    assert sum(decision.shares.values()) == situation.global_batch
    again = decide(LAWS[law], decision.state, replace(situation, reports=(*echoed, *reports), now=1001.0))
    assert sum(again.shares.values()) == situation.global_batch
