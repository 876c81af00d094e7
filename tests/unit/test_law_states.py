"""A state is plain data: it survives JSON, another process can go on with it, and damage is noticed."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from closed_loop import Loop, line, members
from omnilearn_core.control.laws import LAWS, BadStateError, from_json, to_json
from situations import examples


def loop(law: str) -> Loop:
    times = {f"w{k}": line(0.05 * k, 1 / speed) for k, speed in enumerate((100.0, 50.0, 25.0, 90.0))}
    return Loop(LAWS[law], 64, dict(times), members(4, minimum=0), noise=0.03)


@pytest.mark.parametrize("law", LAWS)
def test_another_process_goes_on_exactly_where_this_one_was(law: str) -> None:
    here, there = loop(law), loop(law)
    for _ in range(25):
        here.tick()
        assert there.state is not None
        there.state = from_json(law, to_json(there.state))
        there.tick()
        assert here.decision == there.decision


@pytest.mark.parametrize("law", LAWS)
def test_a_state_of_another_law_is_refused(law: str) -> None:
    other = "Uniform" if law != "Uniform" else "Static"
    state = loop(law).state
    assert state is not None
    with pytest.raises(BadStateError):
        from_json(other, to_json(state))


@pytest.mark.parametrize("text", ["", "{", "null", "[]", "{}", '{"law": "Affine"}', "\x00", "[" * 10_000])
def test_what_is_no_state_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(BadStateError, match="damaged"):
        from_json("Affine", text)


def _leaves(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else None
    if children is None:
        return [path]
    return [leaf for key, child in children for leaf in _leaves(child, (*path, key))]


@given(st.data())
@examples(60)
def test_a_damaged_state_is_refused_or_still_decides(data: Any) -> None:
    law = data.draw(st.sampled_from(sorted(LAWS)))
    running = loop(law)
    running.run(4)
    assert running.state is not None
    tree = json.loads(to_json(running.state))
    path = data.draw(st.sampled_from(_leaves(tree)))
    node = tree
    for key in path[:-1]:
        node = node[key]
    odd: st.SearchStrategy[Any] = st.sampled_from(
        [None, "x", -1, 0, 10**30, 1e308, -1e308, 0.5, math.nan, math.inf, [], {}, True]
    )
    node[path[-1]] = data.draw(odd)
    try:
        running.state = from_json(law, json.dumps(tree))
    except BadStateError:
        return
    running.run(3)
    assert sum(running.plan.values()) == 64
