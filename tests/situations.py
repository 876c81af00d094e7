"""Random members, bounds and reports for property tests, and how many of them to try.

`EXPLORE=20 pytest tests/unit` tries twenty times as many, and others every time.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from omnilearn_core.control.reports import Member, Situation
from omnilearn_core.control.shares import Slot

_EFFORT = int(os.environ.get("EXPLORE", "1"))


def examples(count: int) -> settings:
    """Return the settings of a test that tries ``count`` examples, the same in every run."""
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    return settings(
        max_examples=count * _EFFORT,
        deadline=None,
        derandomize=_EFFORT == 1,
        database=None,
        suppress_health_check=slow,
    )


def times(count: int) -> int:
    """Return how many of something to try."""
    return count * _EFFORT


seconds = st.floats(1e-3, 1e3)
plausible_seconds = st.floats(1e-6, 1e6)
speeds = st.floats(0.03125, 1.0)  # 1 : 32
fixed_parts = st.floats(0.0, 0.85)


@st.composite
def bounds(draw: st.DrawFn, most: int = 60) -> tuple[int, int]:
    """Return the least and the most samples of a member; the least may be none."""
    low = draw(st.integers(0, most // 3))
    return low, draw(st.integers(max(low, 1), most))


@st.composite
def batches(draw: st.DrawFn, limits: Sequence[tuple[int, int]]) -> int:
    """Return a global batch that can be split within the limits."""
    least, most = sum(low for low, _ in limits), sum(high for _, high in limits)
    return draw(st.integers(max(least, 1), most))


@st.composite
def members(draw: st.DrawFn, most: int = 8) -> tuple[Member, ...]:
    """Return members with random groups, bounds, capacities and CPU quotas."""
    names = draw(st.lists(st.integers(0, 2 * most), min_size=1, max_size=most, unique=True))
    quotas = st.none() | st.floats(0.25, 64.0)
    return tuple(
        Member(
            f"job-group-{name}",
            group=draw(st.sampled_from(["a", "b", "c"])),
            device=draw(st.sampled_from(["cpu", "gpu"])),
            minimum=(limits := draw(bounds()))[0],
            maximum=draw(st.none() | st.just(limits[1])),
            capacity=draw(st.none() | st.floats(1.0, 100.0)),
            quota=draw(quotas),
        )
        for name in names
    )


@st.composite
def possible(draw: st.DrawFn, most: int = 8, now: float = 0.0) -> Situation:
    """Return a situation in which the members can share the global batch."""
    people = draw(members(most))
    limits = [(m.minimum, 100 if m.maximum is None else m.maximum) for m in people]
    return Situation(draw(batches(limits)), people, now)


@st.composite
def workers(draw: st.DrawFn, fewest: int = 1, most: int = 8, least_share: int = 1) -> tuple[int, list[Slot]]:
    """Return a global batch and affine workers: up to 32 times as fast as others, 0 to 85 % of a step fixed cost."""
    count = draw(st.integers(fewest, most))
    batch = draw(st.one_of([st.integers(least_share * count, share * count) for share in (4 * least_share, 64, 1024)]))
    pace = draw(st.lists(speeds, min_size=count, max_size=count))
    # What a step would take if nothing were fixed: the fixed costs are relative to it.
    step = batch / sum(pace)
    parts = draw(st.lists(fixed_parts, min_size=count, max_size=count) | fixed_parts.map(lambda part: [part] * count))
    return batch, [
        Slot(step * part / (1.0 - part), 1.0 / speed, 1, batch) for speed, part in zip(pace, parts, strict=True)
    ]


def free(slots: Sequence[Slot]) -> list[Slot]:
    """Return the same workers, who may also get nothing."""
    return [slot._replace(minimum=0) for slot in slots]


def with_bounds(situation: Situation, minimum: int, maximum: int | None) -> Situation:
    """Return the situation with the same bounds for everybody."""
    return replace(situation, members=tuple(replace(m, minimum=minimum, maximum=maximum) for m in situation.members))
