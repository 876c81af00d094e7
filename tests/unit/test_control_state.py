"""A law's state travels as JSON through other hands: nothing is lost on the way, and nothing in it can do harm."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import closed_loop
import situations
from omnilearn_core.control.ceilings import Ceiling
from omnilearn_core.control.curve import Curve, Line
from omnilearn_core.control.law import State, decide
from omnilearn_core.control.laws import LAWS, BadStateError, from_json, to_json
from omnilearn_core.control.learning import Knowledge, Rest
from omnilearn_core.control.open_loop import Nothing, Probed
from omnilearn_core.control.per_epoch import Epoch, Tally
from omnilearn_core.control.proportional import Pace, Paces
from omnilearn_core.control.reports import Report, Situation
from omnilearn_core.control.shares import Slot
from situations import examples

every_law = pytest.mark.parametrize("law", LAWS.values(), ids=list(LAWS))
laws = st.sampled_from(sorted(LAWS))

# The bounds that bounded.py declares; what floating point does there is the point of the tests below.
counts = st.integers(0, 2**53)
windows = st.integers(1, 2**53)
shares = st.integers(0, 2**24) | st.integers(0, 100)
some_shares = st.integers(1, 2**24) | st.integers(1, 100)
amounts = st.floats(0.0, 1e15) | st.floats(0.0, 10.0)
positives = st.floats(1e-24, 1e15) | st.floats(1e-3, 10.0)
variances = st.floats(0.0, 1e60) | st.floats(0.0, 1.0)
signed = st.floats(-1e60, 1e60) | st.floats(-1.0, 1.0)
names = st.sampled_from([f"job-group-{k}" for k in range(9)])

line = st.builds(Line, amounts, positives, variances, signed, variances)
curve = st.builds(
    Curve, line, amounts, amounts, signed, amounts, some_shares, positives, st.none() | st.floats(1e-4, 65536.0)
)
ceiling = st.builds(Ceiling, shares, counts, amounts)
MEMORIES: dict[str, st.SearchStrategy[Any]] = {
    "Uniform": st.just(Nothing()),
    "Static": st.builds(Probed, st.dictionaries(names, positives)),
    "Proportional": st.builds(
        Paces,
        counts,
        st.dictionaries(names, st.builds(Pace, some_shares, positives, windows, shares, amounts)),
        st.dictionaries(names, ceiling),
    ),
    "PerEpoch": st.builds(
        Epoch,
        counts,
        st.dictionaries(names, st.builds(Tally, windows, positives)),
        st.dictionaries(names, positives),
    ),
    "Affine": st.builds(
        Knowledge,
        counts,
        st.dictionaries(names, curve),
        st.booleans(),
        st.dictionaries(names, ceiling),
        st.dictionaries(names, st.builds(Rest, counts, windows)),
        amounts,
        counts,
        counts,
        st.dictionaries(names, positives),
        st.lists(names).map(tuple),
        st.booleans(),
    ),
}


def busy_loop(law: str) -> closed_loop.Loop:
    """Return a loop in which a law uses all of its memory: a cliff, a worker not worth its cost, a changed quota."""
    slots = [Slot(0.05, 0.01 * (1 + k), 0, 200) for k in range(4)] + [Slot(9.0, 0.01, 0, 200)]
    loop = closed_loop.lines(LAWS[law], 200, slots, noise=0.02, seed=3)
    slow = loop.seconds["w0"]
    loop.seconds["w0"] = lambda share: slow(share) * (1.4 if share > 60 else 1.0)
    loop.members = tuple(replace(member, quota=2.0) for member in loop.members)
    return loop


def assert_refused_or_harmless(law: Any, text: str | bytes, loop: closed_loop.Loop) -> None:
    try:
        state = from_json(law.name, text)
    except BadStateError:
        return
    decision = decide(law, state, Situation(200, loop.members, loop.now + 1.0, loop.measure(), loop.window))
    assert sum(decision.shares.values()) == 200


def halve_a_quota(loop: closed_loop.Loop) -> None:
    loop.members = tuple(replace(m, quota=1.0) if m.worker == "w1" else m for m in loop.members)


@every_law
def test_a_run_goes_on_identically_from_json_at_any_point(law: Any) -> None:
    through, straight = busy_loop(law.name), busy_loop(law.name)
    for window in range(45):
        if window == 20:
            halve_a_quota(through)
            halve_a_quota(straight)
        assert through.state is not None
        through.state = from_json(law.name, to_json(through.state))
        assert through.state == straight.state
        assert through.tick() == straight.tick()


@examples(100)
@given(laws, st.data())
def test_a_state_survives_json(law: str, data: st.DataObject) -> None:
    state = State(law, data.draw(MEMORIES[law]), data.draw(counts), {"w": 3}, {"w": 1.5}, {"late": 2})
    assert from_json(law, to_json(state)) == state


@examples(200)
@given(laws, situations.possible(most=5), st.lists(situations.plausible_seconds, min_size=15, max_size=15), st.data())
def test_no_state_within_the_declared_bounds_makes_a_law_crash(
    law: str, situation: Situation, seconds: list[float], data: st.DataObject
) -> None:
    fits = decide(LAWS[law], None, situation).shares
    plan = data.draw(st.just(fits) | st.dictionaries(names, shares))
    state = from_json(law, to_json(State(law, data.draw(MEMORIES[law]), 0, plan, {}, {})))
    for window in range(3):
        now = float(window)
        reports = tuple(
            Report(m.worker, state.shares[m.worker], seconds[5 * window + k], now, m.quota)
            for k, m in enumerate(situation.members)
            if m.worker in state.shares
        )
        decision = decide(LAWS[law], state, replace(situation, reports=reports, now=now, epoch=window))
        assert replace(situation, now=now).allows(decision.shares)
        assert len(decision.why) < 200
        state = decision.state


@examples(300)
@given(laws, st.data())
def test_damaged_json_is_a_bad_state_and_nothing_else(law: str, data: st.DataObject) -> None:
    loop = busy_loop(law)
    loop.run(3)
    assert loop.state is not None
    text = bytearray(to_json(loop.state))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(text) - 1))
        match data.draw(st.sampled_from(["cut", "flip", "insert"])):
            case "cut":
                del text[place : place + data.draw(st.integers(1, 40))]
            case "flip":
                text[place] = data.draw(st.integers(0, 255))
            case _:
                text[place:place] = data.draw(
                    st.sampled_from([b"9", b"-", b"e9", b"null", b"NaN", b'"', b"[", b"{", b","])
                )
        text = text or bytearray(b" ")
    assert_refused_or_harmless(LAWS[law], bytes(text), loop)


JUNK: list[Any] = [
    float("nan"), float("inf"), -1, -0.5, 1e300, 10**30, 10**400, "7", "", "x", True, None, [], [1], {}, {"w0": "x"},
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in items for place in places(item, (*path, key)))]


@every_law
def test_any_value_replaced_by_junk_is_refused_or_harmless(law: Any) -> None:
    loop = busy_loop(law.name)
    loop.run(5)
    assert loop.state is not None
    good = to_json(loop.state)
    for path in places(json.loads(good))[1:]:
        for junk in JUNK:
            stored = json.loads(good)
            inner = stored
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = junk
            assert_refused_or_harmless(law, json.dumps(stored), loop)


@pytest.mark.parametrize(
    "text",
    ["", " ", "{", "[" * 100_000, "1" * 5_000, "null", "[]", '"x"', "NaN", "\ud800", b"\xff\xfe", b"{}\x00", "{}" * 9],
)
@every_law
def test_what_is_no_state_at_all_is_refused(law: Any, text: str | bytes) -> None:
    with pytest.raises(BadStateError):
        from_json(law.name, text)


@every_law
def test_a_state_of_another_law_is_refused(law: Any) -> None:
    for other in LAWS:
        if other != law.name:
            state = busy_loop(other).state
            assert state is not None
            with pytest.raises(BadStateError):
                from_json(law.name, to_json(state))


def test_extreme_but_plausible_readings_leave_a_state_that_can_be_stored() -> None:
    for law in LAWS:
        loop = closed_loop.lines(LAWS[law], 2**24, [Slot(0.0, 1.0, 1, 2**24)] * 3)
        for window, seconds in enumerate((1e-6, 1e6, 1e-6, 1e6, 1e6, 1e-6)):
            loop.window += 1
            loop.decide(r._replace(seconds=seconds if k else 1.0) for k, r in enumerate(loop.measure()))
            assert loop.state is not None
            assert from_json(law, to_json(loop.state)) == loop.state, window
