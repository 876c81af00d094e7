"""Reports that deserve no hearing move nothing, and are counted."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from closed_loop import Loop, line, members
from omnilearn_core.control.laws import LAWS
from omnilearn_core.control.reports import CLOCK_TOLERANCE_SECONDS, LATE_AFTER_SECONDS, Refusal, Report
from situations import examples

Spoil = Callable[[Report, float], Report]

SPOILS: dict[str, tuple[Spoil, Refusal]] = {
    "NaN": (lambda r, now: r._replace(seconds=math.nan), Refusal.BROKEN),
    "infinite": (lambda r, now: r._replace(seconds=math.inf), Refusal.BROKEN),
    "zero": (lambda r, now: r._replace(seconds=0.0), Refusal.BROKEN),
    "negative": (lambda r, now: r._replace(seconds=-1.0), Refusal.BROKEN),
    "without a time": (lambda r, now: r._replace(ended=math.nan), Refusal.BROKEN),
    "from the future": (lambda r, now: r._replace(ended=now + CLOCK_TOLERANCE_SECONDS + 1), Refusal.FUTURE),
    "late": (lambda r, now: r._replace(ended=now - LATE_AFTER_SECONDS - 1), Refusal.LATE),
    "of a stranger": (lambda r, now: r._replace(worker="stranger"), Refusal.STRANGER),
    "of another share": (lambda r, now: r._replace(share=r.share + 1), Refusal.OTHER_SHARE),
    "of no share": (lambda r, now: r._replace(share=0), Refusal.OTHER_SHARE),
}


def loop(law: str) -> Loop:
    times = {f"w{k}": line(0.1, 1 / speed) for k, speed in enumerate((100.0, 50.0, 25.0))}
    return Loop(LAWS[law], 60, dict(times), members(3))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("spoil", SPOILS)
def test_bad_reports_alone_keep_the_plan_and_are_counted(law: str, spoil: str) -> None:
    running = loop(law)
    running.run(5)
    plan, (change, reason) = dict(running.plan), SPOILS[spoil]
    for _ in range(4):
        running.window += 1
        running.decide([change(report, running.now) for report in running.measure()])
    assert running.plan == plan
    assert running.decision.state.refused[reason] == 12


@pytest.mark.parametrize("law", LAWS)
def test_a_doubled_report_counts_once(law: str) -> None:
    once, twice = loop(law), loop(law)
    for _ in range(6):
        once.tick()
        twice.window += 1
        reports = twice.measure()
        twice.decide([*reports, *reports])
        assert once.plan == twice.plan
    assert twice.decision.state.refused[Refusal.DOUBLED] == 18
    assert once.decision.state.refused == {}


@given(st.lists(st.lists(st.sampled_from(sorted(SPOILS)), max_size=3), min_size=6, max_size=6))
@examples(30)
def test_bad_reports_among_good_ones_change_nothing(spoils: list[list[str]]) -> None:
    for law in LAWS:
        clean, dirty = loop(law), loop(law)
        for names in spoils:
            clean.tick()
            dirty.window += 1
            good = dirty.measure()
            bad = [SPOILS[name][0](good[0], dirty.now) for name in names]
            dirty.decide([*bad, *good])
            assert clean.plan == dirty.plan


@pytest.mark.parametrize("law", LAWS)
def test_missing_reports_never_crash_and_the_rest_is_heard(law: str) -> None:
    running = loop(law)
    for missing in range(12):
        running.window += 1
        running.decide([report for report in running.measure() if report.worker != f"w{missing % 4}"])
        assert sum(running.plan.values()) == 60


@given(st.data())
@examples(60)
def test_any_numbers_in_reports_are_survived(data: Any) -> None:
    numbers = st.floats() | st.sampled_from([0.0, -1.0, 1e-6, 1e6, 1e300])
    for law in LAWS:
        running = loop(law)
        for _ in range(3):
            running.window += 1
            running.decide(
                [
                    Report(
                        r.worker, data.draw(st.sampled_from([r.share, 0, -5])), data.draw(numbers), data.draw(numbers)
                    )
                    for r in running.measure()
                ]
            )
            assert sum(running.plan.values()) == 60
            assert min(running.plan.values()) >= 1
