"""How much of the global batch is left to whoever is early."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnilearn_core.control.reports import Member
from omnilearn_core.control.tail import tail_samples

TWO = (Member("a"), Member("b"))


def tail(batch: int = 100, members: tuple[Member, ...] = TWO, **changes: Any) -> int:
    usual: dict[str, Any] = {"percent": None, "law": "Affine", "step_seconds": 1.0, "before": 0}
    return tail_samples(batch, members, **(usual | changes))


def test_cpu_workers_with_steps_that_last_leave_three_tenths() -> None:
    assert tail() == 30


@pytest.mark.parametrize(
    "changes",
    [
        {"members": TWO[:1]},
        {"members": (Member("a"), Member("b", device="gpu"))},
        {"members": (Member("a"), Member("b", maximum=60))},
        {"members": (Member("a"), Member("b", in_pieces=False))},
        {"law": "Uniform"},
        {"law": "Static"},
        {"step_seconds": None},
        {"step_seconds": 0.49},
        {"percent": 0},
    ],
    ids=str,
)
def test_there_is_no_tail_where_it_is_not_known_to_pay_or_not_wanted(changes: dict[str, Any]) -> None:
    assert tail(**changes) == 0


def test_what_the_job_asks_for_is_done_whatever_the_law_device_and_step() -> None:
    members = (Member("a"), Member("b", device="gpu"))
    assert tail(members=members, law="Uniform", percent=10, step_seconds=None) == 10


def test_steps_around_the_limit_do_not_switch_it_on_and_off() -> None:
    assert tail(step_seconds=0.3, before=30) == 30
    assert tail(step_seconds=0.2, before=30) == 0


@given(st.integers(2, 500), st.integers(0, 50), st.lists(st.integers(0, 40), min_size=2, max_size=9))
def test_it_leaves_everybody_the_fewest_samples(batch: int, percent: int, minima: list[int]) -> None:
    members = tuple(Member(str(place), minimum=least) for place, least in enumerate(minima))
    left = tail(batch, members, percent=percent)
    assert 0 <= left <= batch // 2
    assert left == 0 or batch - left >= sum(minima)
