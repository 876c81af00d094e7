"""The rules of the Lease, one by one: who takes it, who keeps it, who stops; and which terms that gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from omnilearn_core.api.messages import Welcome
from omnilearn_operator import leadership
from omnilearn_operator.leadership import (
    MOST_REIGNS,
    TERMS_OF_A_REIGN,
    Knowledge,
    Lease,
    Look,
    Renew,
    Step,
    StepDown,
    Take,
    Timing,
    Wait,
    next_reign,
    next_step,
    term_of,
)

ME, OTHER = "operator-a_1", "operator-b_2"
TIMING = Timing(10.0)
NOW = 1000.0
THEIRS = Lease("7", OTHER, 5, 10.0)
MINE = Lease("8", ME, 6, 10.0)
YEAR_2026 = 1_795_000_000.0


def standby(lease: Lease = THEIRS, *, seen: float = 1.0, due: float = 0.5, **changes: Any) -> Knowledge:
    """Return what a standby knows that first saw this version so many seconds ago."""
    known = Knowledge(ME, lease, sure=True, heard=True, since=NOW - seen, due=NOW + due, highest=lease.reign)
    return replace(known, **changes)


def leader(lease: Lease = MINE, *, renewed: float = 1.0, due: float = 1.0, **changes: Any) -> Knowledge:
    """Return what a leader knows that has sent its last good renewal so many seconds ago."""
    known = Knowledge(ME, lease, sure=True, heard=True, since=NOW - renewed, due=NOW + due, highest=lease.reign)
    return replace(known, reign=MINE.reign, renewed=NOW - renewed, **changes)


@pytest.mark.parametrize(
    ("known", "step"),
    [
        (Knowledge(ME), Look()),
        (standby(), Wait(0.5)),
        (standby(due=0.0), Look()),
        (standby(seen=9.9), Wait(0.1)),
        (standby(seen=10.0), Take()),
        (standby(seen=10.0, sure=False), Wait(0.5)),
        (standby(seen=10.0, sure=False, due=0.0), Look()),
        (standby(replace(THEIRS, seconds=60.0), seen=59.0), Wait(0.5)),
        (standby(replace(THEIRS, seconds=60.0), seen=60.0), Take()),
        (standby(replace(THEIRS, seconds=0.0), seen=10.0), Take()),
        (standby(Lease("9", "", 5), seen=0.0), Take()),
        (standby(Lease("9", ME, 5, 10.0), seen=0.0), Take()),
        (standby(Lease(), seen=0.0), Take()),
        (standby(replace(THEIRS, version=""), seen=3.0), Wait(0.5)),
    ],
    ids=[
        "nothing is known",
        "somebody holds it",
        "it is time to look",
        "it is over in a moment",
        "it did not change for its whole time",
        "somebody else may have been faster: not yet time to look",
        "somebody else may have been faster: look first",
        "its holder has it for longer than this one would",
        "its holder's time is over",
        "it says nothing of its time",
        "it was given back",
        "an earlier process of this pod held it",
        "there never was one",
        "it was deleted, but its holder may not know",
    ],
)
def test_a_standby_takes_the_lease_when_its_holder_must_have_stopped(known: Knowledge, step: Step) -> None:
    assert nearly(next_step(known, NOW, TIMING)) == step


@pytest.mark.parametrize(
    ("known", "step"),
    [
        (leader(), Wait(1.0)),
        (leader(due=0.0), Renew()),
        (leader(renewed=6.5, due=3.0), Wait(0.5)),
        (leader(due=0.0, sure=False), Look()),
        (leader(renewed=7.0), StepDown("the Lease could not be renewed within 7 s")),
        (leader(replace(MINE, version="")), StepDown("the Lease was deleted")),
        (leader(THEIRS), StepDown(f"{OTHER} has the Lease")),
        (leader(replace(MINE, reign=7)), StepDown(f"{ME} has the Lease")),
        (leader(replace(MINE, holder="")), StepDown("nobody has the Lease")),
    ],
    ids=[
        "all is well",
        "it is time to renew",
        "it does not wait beyond its time",
        "somebody has changed something",
        "its time is over",
        "the Lease is gone",
        "another one has it",
        "another process of this pod has it",
        "somebody has cleared it",
    ],
)
def test_a_leader_renews_and_stops_in_time(known: Knowledge, step: Step) -> None:
    assert nearly(next_step(known, NOW, TIMING)) == step


def nearly(step: Step) -> Step:
    return Wait(round(step.seconds, 6)) if isinstance(step, Wait) else step


def test_a_leader_stops_well_before_another_may_begin() -> None:
    for seconds in (5.0, 10.0, 60.0, 300.0):
        timing = Timing(seconds)
        assert timing.deadline + timing.margin == seconds
        assert timing.margin >= 0.25 * seconds
        # Two calls in vain must not be the end.
        assert timing.renewal + 2 * timing.call + timing.again <= timing.deadline + timing.call
        assert timing.look <= 1.0


def test_a_leader_decides_only_until_its_deadline() -> None:
    assert [leadership.decides(leader(renewed=ago), NOW, TIMING) for ago in (0.0, 6.9, 7.0)] == [True, True, False]
    assert not leadership.decides(standby(), NOW, TIMING)


def test_a_call_of_a_leader_does_not_last_beyond_its_deadline() -> None:
    assert leadership.call_seconds(leader(renewed=6.0), NOW, TIMING) == pytest.approx(1.0)
    assert leadership.call_seconds(leader(), NOW, TIMING) == TIMING.call
    assert leadership.call_seconds(standby(), NOW, TIMING) == TIMING.call


# What is learned


def test_time_counts_from_when_a_version_was_first_seen() -> None:
    known = leadership.read(standby(seen=4.0), THEIRS, NOW, TIMING)
    assert (known.since, known.sure, known.due) == (NOW - 4.0, True, NOW + TIMING.look)
    assert leadership.read(known, replace(THEIRS, version="9"), NOW, TIMING).since == NOW


def test_a_call_that_failed_does_not_make_the_wait_longer() -> None:
    known = leadership.refused(standby(seen=10.0), NOW, TIMING, changed=False)
    assert not isinstance(next_step(known, NOW, TIMING), Take)
    assert next_step(leadership.read(known, THEIRS, NOW + 30.0, TIMING), NOW + 30.0, TIMING) == Take()


def test_a_leader_that_does_not_hear_tries_the_same_again_and_one_that_conflicts_looks_first() -> None:
    unheard = leadership.refused(leader(due=0.0), NOW, TIMING, changed=False)
    conflict = leadership.refused(leader(due=0.0), NOW, TIMING, changed=True)
    later = NOW + TIMING.again
    assert (next_step(unheard, later, TIMING), next_step(conflict, later, TIMING)) == (Renew(), Look())
    # It was its own renewal, of which it had not heard: the reign goes on.
    known = leadership.read(conflict, replace(MINE, version="9"), later, TIMING)
    assert (next_step(known, later, TIMING), known.renewed) == (Renew(), NOW - 1.0)


def test_a_leader_counts_from_when_it_sent_the_renewal() -> None:
    known = leadership.taken(leader(), replace(MINE, version="9"), NOW - 0.8, TIMING)
    assert (known.renewed, known.due, known.reign) == (NOW - 0.8, NOW - 0.8 + TIMING.renewal, MINE.reign)


def test_who_has_stepped_down_takes_the_lease_again_if_nobody_else_has() -> None:
    known = leadership.stepped_down(leader(renewed=8.0), NOW)
    assert next_step(known, NOW, TIMING) == Look()
    assert next_step(leadership.read(known, MINE, NOW, TIMING), NOW, TIMING) == Take()


def test_a_deleted_lease_is_left_to_its_holder_for_a_while() -> None:
    known = leadership.read(standby(), None, NOW, TIMING)
    assert isinstance(next_step(known, NOW + 9.0, TIMING), Look | Wait)
    later = leadership.read(known, None, NOW + 10.0, TIMING)
    assert next_step(later, NOW + 10.0, TIMING) == Take()


# Reigns and terms


@pytest.mark.parametrize(
    ("known", "wall", "reign"),
    [
        (Knowledge(ME), YEAR_2026, 54_290_800),
        (standby(), 0.0, 6),
        (standby(), YEAR_2026, 54_290_800),
        (standby(replace(THEIRS, reign=60_000_000)), YEAR_2026, 60_000_001),
        (leadership.read(standby(replace(THEIRS, reign=60_000_000)), None, NOW, TIMING), YEAR_2026, 60_000_001),
        (Knowledge(ME), 1e15, MOST_REIGNS // 2),
    ],
    ids=[
        "the first has the number of its moment",
        "a clock that is behind does no harm",
        "a Lease that was deleted in between does no harm",
        "a clock that was ahead does no harm",
        "what was deleted is not forgotten",
        "a clock that shows nonsense does no harm",
    ],
)
def test_a_reign_has_a_higher_number_than_all_before(known: Knowledge, wall: float, reign: int) -> None:
    assert next_reign(known, wall) == reign


def test_every_term_of_a_reign_is_above_those_of_the_reign_before() -> None:
    for reign in (1, 54_290_800, MOST_REIGNS - 1):
        assert term_of(reign, TERMS_OF_A_REIGN - 1) < term_of(reign + 1, 0)


def test_every_term_is_above_those_that_clocks_have_given_and_fits_into_a_message() -> None:
    assert term_of(0, 1) > 4_000_000_000 > YEAR_2026
    highest = term_of(MOST_REIGNS, TERMS_OF_A_REIGN)
    assert Welcome(term=highest, global_batch=1, running=False, report_seconds=1.0).term == highest
