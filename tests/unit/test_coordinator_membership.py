"""When generations are formed, of whom, and how: the rules of docs/protocol.md, one by one."""

from __future__ import annotations

import pytest

from coordination import Scene, join_of, running
from omnilearn_coordinator.membership import events
from omnilearn_coordinator.membership.actions import Assign, Disconnect, Kind, Refuse
from omnilearn_core.api.messages import Change, GenerationId


def assigned(actions: list[object]) -> list[str]:
    return [action.worker for action in actions if isinstance(action, Assign)]


def test_the_first_generation_starts_when_all_expected_workers_have_joined() -> None:
    scene = Scene(expected=2)
    scene.joins("b")
    assert assigned(list(scene.passes())) == []
    scene.joins("a")
    assert assigned(list(scene.passes())) == ["a", "b"]
    assert scene.newest.change is Change.START
    assert not scene.fresh()


def test_a_start_waits_a_while_for_those_who_are_late() -> None:
    scene = Scene(expected=3, fewest=2)
    scene.joins("a", "b")
    assert assigned(list(scene.passes(2.9))) == []
    assert assigned(list(scene.passes(0.2))) == ["a", "b"]


def test_too_few_workers_wait_and_people_are_told_once() -> None:
    scene = Scene(expected=3, fewest=2)
    scene.joins("a")
    scene.passes(5.0)
    scene.passes(5.0)
    assert scene.state.chain == ()
    assert len(scene.told(Kind.WAITING)) == 1


def test_a_closed_connection_makes_an_urgent_generation_at_once() -> None:
    scene = running("a", "b", "c")
    scene.closes("b")
    assert assigned(list(scene.passes())) == ["a", "c"]
    assert scene.newest.change is Change.URGENT
    assert scene.newest.number == 2


def test_losses_that_come_together_make_one_generation() -> None:
    scene = running("a", "b", "c", "d")
    scene.closes("b", "d")
    scene.passes()
    assert list(scene.newest.names) == ["a", "c"]
    assert scene.newest.number == 2


def test_after_broken_the_members_are_the_same_if_nobody_turns_out_to_be_lost() -> None:
    scene = running("a", "b")
    scene.breaks("a", "b")
    assert assigned(list(scene.passes(0.05))) == []
    assert assigned(list(scene.passes(0.1))) == ["a", "b"]
    assert scene.newest.change is Change.URGENT


def test_news_of_a_loss_ends_the_grace_after_broken() -> None:
    scene = running("a", "b")
    scene.breaks("a")
    scene.closes("b")
    scene.passes(0.01)
    assert list(scene.newest.names) == ["a"]


def test_a_member_that_is_silent_is_lost_and_disconnected() -> None:
    scene = running("a", "b")
    for _ in range(11):
        scene.now += 1.0
        scene.reports("a")
    connection = scene.connection("b")
    actions = scene.passes()
    assert Disconnect("b", connection) in actions
    assert list(scene.newest.names) == ["a"]


def test_the_time_in_which_the_coordinator_was_held_up_is_nobodys_silence() -> None:
    scene = running("a", "b")
    scene.now += 60.0
    scene.happens(events.HeldUp(60.0))
    scene.passes()
    assert scene.newest.number == 1


def test_a_joiner_comes_with_a_planned_generation_and_is_fresh() -> None:
    scene = running("a", "b")
    scene.joins("c")
    assert assigned(list(scene.passes())) == ["a", "b", "c"]
    assert scene.newest.change is Change.PLANNED
    assert scene.fresh() == {"c"}


def test_an_urgent_generation_takes_no_joiners_if_the_survivors_are_enough() -> None:
    scene = running("a", "b")
    scene.joins("c")
    scene.closes("b")
    scene.passes()
    assert list(scene.newest.names) == ["a"]


def test_too_few_survivors_take_joiners_with_them() -> None:
    scene = running("a", "b", fewest=2)
    scene.closes("b")
    scene.passes()
    assert scene.newest.number == 1
    assert scene.state.waiting is not None
    scene.joins("c")
    scene.passes()
    assert list(scene.newest.names) == ["a", "c"]
    assert scene.newest.change is Change.URGENT
    assert scene.fresh() == {"c"}


def test_joiners_beyond_the_most_wait() -> None:
    scene = running("a", "b", most=2)
    scene.joins("c")
    scene.passes()
    assert scene.newest.number == 1
    scene.closes("a")
    scene.passes()
    scene.enters()
    scene.passes()
    assert list(scene.newest.names) == ["b", "c"]


def test_a_second_joiner_waits_while_a_planned_generation_is_pending() -> None:
    scene = running("a")
    scene.joins("b")
    scene.passes()
    scene.joins("c")
    scene.passes()
    assert list(scene.newest.names) == ["a", "b"]
    scene.enters()
    scene.passes()
    assert list(scene.newest.names) == ["a", "b", "c"]


def test_a_joiner_that_dies_while_it_is_built_in_does_not_disturb_the_members() -> None:
    scene = running("a", "b")
    scene.joins("c")
    scene.passes()
    scene.closes("c")
    scene.passes()
    assert scene.newest.change is Change.PLANNED
    assert list(scene.newest.names) == ["a", "b"]


def test_a_joiner_that_is_not_built_in_time_is_sent_away() -> None:
    scene = running("a", "b")
    scene.joins("c")
    scene.passes()
    scene.builds("a", "b")
    connection = scene.connection("c")
    for _ in range(31):
        scene.now += 1.0
        scene.reports("a", "b")
    refusals = [action for action in scene.passes() if isinstance(action, Refuse)]
    assert [(refusal.worker, refusal.connection) for refusal in refusals] == [("c", connection)]
    assert scene.newest.change is Change.PLANNED
    assert list(scene.newest.names) == ["a", "b"]


def test_who_does_not_enter_a_planned_generation_that_others_have_entered_is_left_out() -> None:
    scene = running("a", "b")
    scene.joins("c")
    scene.passes()
    scene.builds("a", "b", "c")
    scene.enters("a", "b", round_=1)
    for _ in range(11):
        scene.now += 1.0
        scene.reports("a", "b", "c", step=1)
    scene.passes()
    assert scene.newest.change is Change.URGENT
    assert list(scene.newest.names) == ["a", "b"]


def test_a_member_on_its_way_into_a_generation_holds_the_model() -> None:
    scene = running("a", "b", "c")
    scene.closes("c")
    scene.passes()
    scene.enters("a")
    scene.closes("a")
    scene.passes()
    assert list(scene.newest.names) == ["b"]
    assert scene.newest.change is Change.URGENT
    assert not scene.fresh()


def test_a_joiner_on_its_way_into_a_generation_does_not_hold_the_model() -> None:
    scene = running("a")
    scene.joins("b")
    scene.passes()
    scene.enters("a")
    scene.closes("a")
    scene.passes()
    assert scene.newest.number == 2, "a start waits for those who may come back"
    scene.passes(10.1)
    assert scene.newest.change is Change.START
    assert list(scene.newest.names) == ["b"]


def test_members_of_a_start_that_had_not_entered_yet_stay_with_the_others() -> None:
    scene = Scene(expected=3)
    scene.joins("a", "b", "c")
    scene.passes()
    scene.enters("a")
    scene.closes("c")
    scene.passes()
    assert list(scene.newest.names) == ["a", "b"]
    assert scene.fresh() == {"b"}


def test_a_formation_that_takes_too_long_goes_on_without_those_who_built_nothing() -> None:
    scene = running("a", "b", "c", "d")
    scene.closes("d")
    scene.passes()
    scene.builds("a", "b")
    scene.now += 10.1
    scene.reports("a", "b", "c")
    scene.passes()
    assert list(scene.newest.names) == ["a", "b"]


def test_a_formation_for_which_nobody_is_to_blame_is_tried_again() -> None:
    scene = running("a", "b", "c")
    scene.closes("c")
    scene.passes()
    scene.now += 10.1
    scene.reports("a", "b")
    scene.passes()
    assert list(scene.newest.names) == ["a", "b"]
    assert scene.newest.number == 3


def test_formations_in_vain_leave_somebody_out_and_in_the_end_fail_the_job() -> None:
    scene = running("a", "b", fewest=2)
    sizes = set()
    for _ in range(400):
        scene.now += 1.0
        scene.reports(*scene.state.workers)
        scene.passes()
        sizes.add(len(scene.fresh()))
        scene.breaks(*[name for name in scene.newest.names if name in scene.state.workers])
        if scene.state.outcome:
            break
    assert scene.state.outcome is not None
    assert not scene.state.outcome.complete
    assert "network" in scene.state.outcome.why
    assert sizes == {0, 1}


def test_a_new_round_forgives_what_was_in_vain() -> None:
    scene = running("a", "b")
    for step in range(60):
        scene.now += 6.0
        scene.reports("a", "b", step=step)
        scene.breaks("a")
        scene.passes()
        scene.now += 6.0
        scene.reports("a", "b", step=step)
        scene.passes()
        scene.enters(round_=step)
    assert scene.state.outcome is None


def test_a_start_after_a_loss_of_all_begins_at_once_when_all_have_come_anew() -> None:
    scene = running("a", "b")
    scene.closes("a", "b")
    scene.passes()
    assert "all workers are gone" in scene.told(Kind.GONE)
    scene.joins("a", "b", attempt=1)
    scene.passes()
    assert scene.newest.change is Change.START
    assert scene.newest.number == 2


def test_numbers_go_on_from_the_highest_that_anybody_has_seen() -> None:
    scene = Scene(expected=2)
    scene.joins("a")
    scene.joins("b", join=join_of(last=41))
    scene.passes()
    assert scene.newest.id == GenerationId(number=42, nonce="nonce")


@pytest.mark.parametrize("worker", ["a", "b"])
def test_every_member_hears_the_same_of_a_generation(worker: str) -> None:
    scene = running("a", "b")
    told = [action.generation for action in scene.actions if isinstance(action, Assign) and action.worker == worker]
    assert [generation.id for generation in told] == [scene.newest.id]
    assert told[0].members == scene.newest.members
