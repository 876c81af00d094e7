"""Every law, through anything that may happen to it: plans are whole, exact and within the bounds, and say why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import closed_loop
import situations
from omnilearn_core.control.law import Decision, State, decide
from omnilearn_core.control.laws import LAWS
from omnilearn_core.control.reports import Member, Report, Situation
from omnilearn_core.control.shares import ImpossibleSplitError
from situations import examples

every_law = pytest.mark.parametrize("law", LAWS.values(), ids=list(LAWS))
laws = st.sampled_from(sorted(LAWS))


def assert_whole(decision: Decision[Any], situation: Situation) -> None:
    shares = decision.shares
    assert list(shares) == [member.worker for member in situation.members]
    assert all(type(share) is int for share in shares.values())
    assert sum(shares.values()) == situation.global_batch
    for member, (low, high) in zip(situation.members, situation.bounds(), strict=True):
        assert low <= shares[member.worker] <= high


def assert_sentence(why: str) -> None:
    assert why
    assert why == why.strip()
    assert "\n" not in why
    assert len(why) < 200


def measured(state: State[Any], situation: Situation, data: st.DataObject) -> Situation:
    """Return the next window, in which some of the members have reported any plausible step time."""
    now = situation.now + closed_loop.WINDOW_SECONDS
    reports = tuple(
        Report(m.worker, state.shares[m.worker], data.draw(situations.plausible_seconds), now, m.quota)
        for m in situation.members
        if m.worker in state.shares and data.draw(st.booleans())
    )
    return replace(situation, now=now, reports=reports, epoch=situation.epoch + data.draw(st.integers(0, 1)))


@examples(150)
@given(laws, st.lists(situations.possible(), min_size=1, max_size=4), st.integers(1, 4), st.data())
def test_plans_are_exact_and_within_the_bounds_whatever_changes(
    law: str, chapters: list[Situation], windows: int, data: st.DataObject
) -> None:
    state: State[Any] | None = None
    now = 0.0
    for chapter in chapters:
        situation = replace(chapter, now=now)
        for _ in range(windows):
            decision = decide(LAWS[law], state, situation)
            assert_whole(decision, situation)
            assert_sentence(decision.why)
            before = state or State(law, None, 0, {}, {}, {})
            assert decision.changed == (decision.shares != before.shares)
            assert decision.state.version == before.version + decision.changed
            state = decision.state
            situation = measured(state, situation, data)
        now = situation.now


@examples(60)
@given(laws, situations.possible(), st.data())
def test_a_law_can_go_on_after_an_impossible_demand(law: str, situation: Situation, data: st.DataObject) -> None:
    state = decide(LAWS[law], None, situation).state
    situation = measured(state, situation, data)
    demand = data.draw(
        st.sampled_from(
            [
                situations.with_bounds(situation, situation.global_batch + 1, None),
                situations.with_bounds(replace(situation, global_batch=100), 1, 1),
                replace(situation, members=()),
                replace(situation, members=(*situation.members, situation.members[0])),
            ]
        )
    )
    if sum(low for low, _ in demand.bounds()) <= demand.global_batch <= len(demand.members):
        return  # as many members as samples: possible after all
    with pytest.raises(ImpossibleSplitError):
        decide(LAWS[law], state, demand)
    assert_whole(decide(LAWS[law], state, situation), situation)


@every_law
@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize(
    ("batch", "members", "sentence"),
    [
        (3, closed_loop.members(4), "lower minPerWorker or use fewer workers"),
        (9, closed_loop.members(2, maximum=4), "raise maxPerWorker or use more workers"),
        (9, (), "add a worker"),
        (9, (Member("w0"), Member("w1"), Member("w0")), "give every worker its own name"),
        (9, (Member("w0", minimum=5, maximum=3), Member("w1")), "lower minPerWorker or raise maxPerWorker"),
    ],
)
def test_an_impossible_demand_says_what_to_change(
    law: Any, settled: bool, batch: int, members: tuple[Member, ...], sentence: str
) -> None:
    loop = closed_loop.Loop(law, 8, {f"w{k}": closed_loop.line(0.1, 0.1) for k in range(4)}, closed_loop.members(4))
    loop.run(3)
    with pytest.raises(ImpossibleSplitError, match=sentence):
        decide(law, loop.state if settled else None, Situation(batch, members, loop.now))


@every_law
def test_new_bounds_and_a_new_batch_hold_at_once(law: Any) -> None:
    loop = closed_loop.Loop(
        law, 64, {f"w{k}": closed_loop.line(0.0, 1.0 / (1 + k)) for k in range(4)}, closed_loop.members(4)
    )
    loop.run(4)
    for batch, minimum, maximum in ((64, 8, 24), (40, 8, 24), (40, 0, 12), (1000, 1, None)):
        loop.global_batch = batch
        decision = loop.with_members(replace(m, minimum=minimum, maximum=maximum) for m in loop.members)
        assert_whole(decision, Situation(batch, loop.members, loop.now))


@examples(60)
@given(laws, situations.possible(), st.integers(1, 5), st.data())
def test_the_same_input_gives_the_same_output(
    law: str, situation: Situation, windows: int, data: st.DataObject
) -> None:
    state: State[Any] | None = None
    for _ in range(windows):
        decision = decide(LAWS[law], state, situation)
        assert decision == decide(LAWS[law], state, situation)
        state = decision.state
        situation = measured(state, situation, data)


@examples(40)
@given(laws, situations.possible(), st.data())
def test_the_order_of_the_reports_does_not_matter(law: str, situation: Situation, data: st.DataObject) -> None:
    state = decide(LAWS[law], None, situation).state
    for _ in range(3):
        situation = measured(state, situation, data)
        shuffled = replace(situation, reports=tuple(data.draw(st.permutations(situation.reports))))
        decision = decide(LAWS[law], state, situation)
        assert decision.shares == decide(LAWS[law], state, shuffled).shares
        state = decision.state


@every_law
def test_a_thousand_workers_with_long_names_are_explained_in_one_sentence(law: Any) -> None:
    names = [f"{'a-job-with-a-name-as-long-as-names-may-be':-<57}{k:06}" for k in range(1000)]
    speeds = {name: closed_loop.line(0.1 * (k % 7), 0.01 * (1 + k % 13)) for k, name in enumerate(names)}
    people = [Member(name, f"g{k % 91}", minimum=0, quota=1.0) for k, name in enumerate(names)]
    loop = closed_loop.Loop(law, 100_000, speeds, tuple(people[:800]))
    assert_sentence(loop.decision.why)
    for _ in range(6):
        assert_sentence(loop.tick().why)
    assert_sentence(loop.with_members(replace(m, quota=0.5) for m in people[:800]).why)
    assert_sentence(loop.with_members(people[100:]).why)
    loop.seconds = {
        name: closed_loop.line(0.5, 0.9) if k % 2 else worker for k, (name, worker) in enumerate(speeds.items())
    }
    for _ in range(4):
        assert_sentence(loop.tick().why)
