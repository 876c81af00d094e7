"""Members come and go, change their quota, hit a ceiling, or are not worth their cost."""

from dataclasses import replace

import pytest

from closed_loop import Loop, line, lines, members, optimum
from omnilearn_core.control.laws import LAWS
from omnilearn_core.control.reports import Member, Refusal
from omnilearn_core.control.shares import Slot

AFFINE = LAWS["Affine"]
SLOTS = [Slot(0.2, 1 / speed, 1, 240) for speed in (100.0, 80.0, 40.0, 20.0)]


def settled() -> Loop:
    running = lines(AFFINE, 240, SLOTS)
    running.run(8)
    return running


@pytest.mark.parametrize("leaver", range(4))
def test_survivors_share_in_zero_windows_within_two_percent_of_their_optimum(leaver: int) -> None:
    running = settled()
    running.with_members(m for k, m in enumerate(running.members) if k != leaver)
    left = [slot for k, slot in enumerate(SLOTS) if k != leaver]
    assert running.step <= 1.02 * optimum(240, left) + max(slot.per_sample for slot in left)
    assert running.decision.why.startswith(f"w{leaver} left: ")


def test_a_new_member_starts_from_its_groups_speed() -> None:
    running = settled()
    running.seconds["new"] = running.seconds["w3"]
    running.with_members([*running.members, Member("new", group="g3")])
    assert running.plan["new"] == pytest.approx(running.plan["w3"], abs=1)
    assert running.step <= 1.03 * optimum(240, [*SLOTS, SLOTS[3]])


def test_a_worker_that_comes_back_is_remembered() -> None:
    running = settled()
    everybody, before = running.members, dict(running.plan)
    running.with_members(everybody[:3])
    running.run(5)
    running.with_members(everybody)
    assert all(abs(running.plan[worker] - share) <= 2 for worker, share in before.items())


@pytest.mark.parametrize("law", LAWS)
def test_every_law_takes_joins_and_losses_at_any_time(law: str) -> None:
    running = lines(LAWS[law], 240, SLOTS)
    everybody = running.members
    for window in range(20):
        running.with_members(m for k, m in enumerate(everybody) if (window >> k) % 2 == 0 or k == 0)
        running.tick()
        assert sum(running.plan.values()) == 240
        assert running.plan.keys() == {m.worker for m in running.members}


def test_a_new_quota_is_fed_forward_and_old_readings_are_refused() -> None:
    people = tuple(replace(m, quota=2.0) for m in members(2))
    running = Loop(AFFINE, 120, {"w0": line(0.0, 0.01), "w1": line(0.0, 0.01)}, people)
    running.run(4)
    stale = running.measure()
    running.window += 1
    running.with_members([people[0], replace(people[1], quota=1.0)])
    assert running.plan["w1"] == pytest.approx(40, abs=6)
    assert "new CPU quota of w1" in running.decision.why
    running.decide([report._replace(share=running.plan[report.worker], ended=running.now) for report in stale])
    assert running.decision.state.refused[Refusal.OTHER_QUOTA] == 1


@pytest.mark.parametrize("law", ["Affine", "Proportional"])
def test_a_cliff_is_learned_as_a_ceiling(law: str) -> None:
    def cliff(share: int) -> float:
        return share * 0.01 if share <= 90 else share * 0.02

    running = Loop(LAWS[law], 160, {"w0": cliff, "w1": line(0.0, 0.02)}, members(2))
    plans = running.run(40)
    assert max(plan["w0"] for plan in plans[5:]) <= 90
    assert running.step <= 1.6


def expensive(minimum: int) -> Loop:
    times = {"w0": line(0.1, 0.01), "w1": line(0.1, 0.01), "w2": line(5.0, 0.01)}
    return Loop(AFFINE, 100, dict(times), members(3, minimum=minimum))


def test_a_worker_that_costs_more_than_it_brings_gets_nothing_where_that_is_allowed() -> None:
    running = expensive(minimum=0)
    running.run(10)
    assert running.plan == {"w0": 50, "w1": 50, "w2": 0}


def test_it_gets_its_minimum_where_it_must() -> None:
    running = expensive(minimum=1)
    running.run(10)
    assert running.plan["w2"] == 1


def test_it_is_tried_again_and_taken_back_when_it_has_become_cheap() -> None:
    running = expensive(minimum=0)
    plans = running.run(60)
    tries = [window for window, plan in enumerate(plans[10:], start=10) if plan["w2"]]
    assert 1 <= len(tries) <= 4
    running.seconds["w2"] = line(0.1, 0.01)
    plans = running.run(80)
    assert plans[-1]["w2"] > 25
