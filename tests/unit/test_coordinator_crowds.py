"""Many workers of many jobs: how often they report, and how often a job at which nothing happens is looked at."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordination import SETTINGS, Scene, after_a_restart, join_of, running
from omnilearn_coordinator.crowd import Crowd, Slowest
from omnilearn_coordinator.driver import Driver
from omnilearn_coordinator.membership import next_look
from omnilearn_coordinator.membership.actions import Kind


class Silence:
    """A wire that nobody hears."""

    def send(self, connection: int, frame: str) -> None:
        pass

    def disconnect(self, connection: int, last: str | None = None) -> None:
        pass


@pytest.mark.parametrize(("crowd", "seconds"), [(1, 1.0), (400, 1.0), (1000, 2.5), (5000, 12.5), (100_000, 30.0)])
def test_workers_report_less_often_the_more_there_are(crowd: int, seconds: float) -> None:
    driver = Driver(SETTINGS, Silence(), lambda _: None, term=1, nonce="n")
    driver.crowd.size = crowd
    assert driver.report_seconds == pytest.approx(seconds)


def test_a_job_that_trains_rests_until_somebody_could_be_silent() -> None:
    scene = running("a", "b")
    assert next_look(scene.state, scene.now) == 1.0
    assert next_look(scene.state, scene.now + 9.7) == pytest.approx(0.3)
    assert next_look(scene.state, scene.now + 20.0) == 0.01


def test_where_reports_are_rare_a_job_rests_longer_and_silence_is_longer() -> None:
    scene = running("a", "b")
    scene.state = replace(scene.state, report_seconds=12.0)
    assert scene.state.silent_after == pytest.approx(30.0)
    assert next_look(scene.state, scene.now) == 12.0
    assert next_look(scene.state, scene.now + 29.0) == pytest.approx(1.0)


def test_a_crowd_that_goes_is_believed_to_report_rarely_until_all_have_heard_of_it() -> None:
    slowest = Slowest()
    assert [slowest.tell(12.0, 0.0), slowest.tell(1.0, 30.0), slowest.tell(1.0, 37.0)] == [12.0, 12.0, 1.0]
    assert slowest.tell(5.0, 37.5) == 5.0


def test_a_job_in_which_something_is_under_way_does_not_rest() -> None:
    joining, broken, empty = running("a", "b"), running("a", "b"), running("a")
    joining.joins("c")
    broken.breaks("a")
    empty.closes("a")
    assert next_look(joining.state, joining.now) == 0.25
    assert next_look(broken.state, broken.now) == pytest.approx(0.1)
    assert next_look(empty.state, empty.now) == 1.0


def test_members_that_come_back_in_a_crowd_are_waited_for() -> None:
    before = running("a", "b", "c").newest

    def back(seconds: float, crowded: float) -> bool:
        scene = Scene(expected=3)
        scene.state = replace(scene.state, crowd_arrived=scene.now + crowded)
        scene.joins("a", "b", join=join_of(before, round_=4))
        scene.passes(seconds)
        return bool(scene.told(Kind.ADOPTED))

    assert (back(9.0, 0.0), back(11.0, 0.0)) == (False, True)
    assert (back(11.0, 50.0), back(59.0, 50.0), back(61.0, 50.0)) == (False, False, True)


def test_a_joiner_alone_does_not_start_anew_while_members_may_come_back_in_a_crowd() -> None:
    def started(seconds: float, crowded: float) -> bool:
        scene = after_a_restart(running("a", "b"), expected=3)
        scene.state = replace(scene.state, crowd_arrived=scene.now + crowded)
        scene.joins("c")
        scene.passes(seconds)
        return scene.state.newest is not None

    assert (started(10.1, 0.0), started(10.1, 50.0), started(60.1, 50.0)) == (True, False, True)


def test_a_crowd_that_may_come_back_reports_as_rarely_as_it_did_and_is_waited_for_no_longer_than_it_may_take() -> None:
    crowd = Crowd()
    crowd.expect(5000, 210.0, now=100.0)
    crowd.come(101.0)
    assert (crowd.report_seconds, crowd.longest_pause(1.0, 102.0)) == (12.5, 12.5)
    assert (crowd.arrived(102.0), crowd.arrived(311.0)) == (101.0, 0.0)
    crowd.longest_pause(1.0, 311.0)
    assert crowd.report_seconds == 1.0


def test_outside_of_a_return_nobody_waits_for_the_workers_of_other_jobs() -> None:
    crowd = Crowd()
    crowd.come(5.0)
    assert crowd.arrived(5.0) == 0.0
