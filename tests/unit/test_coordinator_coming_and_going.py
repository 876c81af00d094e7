"""Leaving, finishing, failing, coming back and taking over."""

from __future__ import annotations

from coordination import Scene, after_a_restart, join_of, running
from omnilearn_coordinator.membership import events
from omnilearn_coordinator.membership.actions import Adopt, Assign, Disconnect, Kind, Refuse, Release
from omnilearn_core.api.messages import Change


def released(scene: Scene) -> list[str]:
    return [action.worker for action in scene.actions if isinstance(action, Release)]


def test_a_leaver_hears_of_the_generation_without_it_and_goes_when_that_was_entered() -> None:
    scene = running("a", "b")
    scene.leaves("b")
    actions = scene.passes()
    assert scene.newest.change is Change.PLANNED
    assert list(scene.newest.names) == ["a"]
    assert {action.worker for action in actions if isinstance(action, Assign)} == {"a", "b"}
    assert released(scene) == []
    scene.enters("a")
    scene.passes()
    assert released(scene) == ["b"]


def test_leavers_go_at_once_if_too_few_would_stay() -> None:
    scene = running("a", "b", fewest=2)
    scene.leaves("b")
    scene.passes()
    assert released(scene) == ["b"]
    scene.passes()
    assert scene.newest.number == 1
    assert scene.state.waiting is not None


def test_the_last_holder_hands_the_model_over_before_it_leaves() -> None:
    scene = running("a")
    scene.joins("b")
    scene.leaves("a")
    scene.passes()
    assert list(scene.newest.names) == ["a", "b"]
    scene.enters()
    scene.passes()
    assert list(scene.newest.names) == ["b"]
    assert not scene.fresh()
    scene.enters()
    scene.passes()
    assert released(scene) == ["a"]


def test_a_leaver_saves_the_model_if_all_others_die_before_it_has_left() -> None:
    scene = running("a", "b")
    scene.leaves("b")
    scene.passes()
    scene.closes("a")
    scene.passes()
    assert scene.newest.change is Change.URGENT
    assert list(scene.newest.names) == ["b"]


def test_a_joiner_that_leaves_goes_at_once() -> None:
    scene = running("a", most=1)
    scene.joins("b")
    scene.leaves("b")
    scene.passes()
    assert released(scene) == ["b"]


def test_a_release_that_was_lost_with_its_connection_is_told_again() -> None:
    scene = running("a", most=1)
    scene.joins("b")
    scene.leaves("b")
    scene.passes()
    scene.connects("b")
    scene.passes()
    assert released(scene) == ["b", "b"]


def test_the_job_is_complete_when_every_holder_is_done() -> None:
    scene = running("a", "b")
    scene.finishes("a")
    scene.passes()
    assert scene.state.outcome is None
    scene.joins("c")
    scene.passes()
    assert scene.newest.number == 1, "a job that is about to end takes nobody in"
    scene.finishes("b")
    scene.passes()
    assert scene.state.outcome is not None
    assert scene.state.outcome.complete
    assert set(scene.state.outcome.done) == {"a", "b"}
    assert set(released(scene)) == {"a", "b", "c"}


def test_who_was_done_says_so_again_in_a_later_generation() -> None:
    scene = running("a", "b", "c")
    first = scene.newest.id
    scene.finishes("a")
    scene.closes("c")
    scene.passes()
    scene.enters()
    scene.finishes("b")
    scene.passes()
    assert scene.state.outcome is None
    scene.finishes("a", generation=first)
    scene.passes()
    assert scene.state.outcome is None
    scene.finishes("a")
    scene.passes()
    assert scene.state.outcome is not None


def test_who_comes_after_the_end_is_let_go() -> None:
    scene = running("a")
    scene.finishes("a")
    scene.passes()
    scene.joins("b")
    scene.passes()
    assert "b" in released(scene)


def test_a_script_that_cannot_work_fails_the_job() -> None:
    scene = running("a", "b")
    scene.happens(events.Failed("a", scene.connection("a"), "no such dataset", everywhere=True))
    actions = scene.passes()
    assert scene.state.outcome is not None
    assert not scene.state.outcome.complete
    assert Release("b", "no such dataset", failed=True) in actions


def test_a_script_that_failed_on_one_worker_is_the_loss_of_that_worker() -> None:
    scene = running("a", "b")
    scene.happens(events.Failed("a", scene.connection("a"), "bad disk", everywhere=False))
    scene.passes()
    assert list(scene.newest.names) == ["b"]
    assert scene.told(Kind.FAILED) == ["a failed: bad disk"]


def test_a_new_connection_of_the_same_attempt_replaces_the_old_one_and_nobody_is_lost() -> None:
    scene = running("a", "b")
    old = scene.connection("a")
    scene.joins("a", join=join_of(scene.newest, 3))
    assert Disconnect("a", old) in scene.passes()
    scene.happens(events.Closed("a", old))
    scene.passes()
    assert scene.newest.number == 1
    assert scene.state.missing(scene.newest) == []


def test_who_comes_back_in_time_is_told_again_what_it_may_have_missed() -> None:
    scene = running("a", "b")
    standing = scene.newest
    scene.joins("c")
    scene.passes()
    scene.joins("a", join=join_of(standing, 3))
    assert Assign("a", scene.newest) in scene.passes()


def test_who_comes_back_with_an_older_generation_is_a_joiner() -> None:
    scene = running("a", "b")
    standing = scene.newest
    scene.closes("b")
    scene.passes()
    scene.enters("a")
    scene.joins("b", join=join_of(standing, 3))
    scene.passes()
    assert scene.newest.change is Change.PLANNED
    assert scene.fresh() == {"b"}


def test_members_that_all_lost_their_connection_go_on_when_they_are_back() -> None:
    scene = running("a", "b")
    standing = scene.newest
    scene.closes("a", "b")
    scene.joins("a", "b", join=join_of(standing, 3))
    scene.passes()
    assert scene.newest is scene.state.standing
    assert scene.newest.number == 1


def test_a_newer_attempt_replaces_an_older_one() -> None:
    scene = running("a", "b")
    scene.connects("a", attempt=1)
    scene.passes()
    assert list(scene.newest.names) == ["b"]


def test_a_lower_attempt_is_refused_with_a_sentence() -> None:
    scene = running("a", "b")
    scene.joins("a", attempt=2)
    number = scene.connects("a", attempt=1)
    refusals = [action for action in scene.passes() if isinstance(action, Refuse)]
    assert [refusal.connection for refusal in refusals] == [number]
    assert "attempt 2 has taken its place" in refusals[0].sentence
    assert scene.state.workers["a"].attempt == 2


def test_a_new_coordinator_adopts_the_generation_that_trains() -> None:
    old = running("a", "b")
    scene = after_a_restart(old)
    scene.joins("a", join=join_of(old.newest, 5))
    scene.passes()
    assert scene.state.chain == ()
    scene.joins("b", join=join_of(old.newest, 5))
    assert Adopt(old.newest.id) in scene.passes()
    assert scene.newest.id == old.newest.id
    assert scene.newest.is_entered


def test_members_that_do_not_come_back_to_a_new_coordinator_are_lost() -> None:
    old = running("a", "b")
    scene = after_a_restart(old)
    scene.joins("c")
    scene.joins("a", join=join_of(old.newest, 5))
    scene.passes(9.9)
    assert scene.state.chain == ()
    scene.passes(0.2)
    assert list(scene.newest.names) == ["a"]
    assert scene.newest.number == 2
    assert scene.newest.id.nonce == "other"


def test_of_two_generations_the_newer_is_adopted_and_those_on_their_way_hold_the_model() -> None:
    old = running("a", "b", "c")
    first = old.newest
    old.closes("c")
    old.passes()
    scene = after_a_restart(old)
    scene.joins("a", join=join_of(first, 5))
    scene.joins("b", join=join_of(old.newest, 5))
    scene.passes()
    assert scene.newest.id == old.newest.id
    assert [worker.name for worker in scene.state.holders()] == ["a", "b"]


def test_a_new_coordinator_waits_longer_before_it_starts_from_nothing() -> None:
    scene = after_a_restart(running("a", "b"), expected=3)
    scene.joins("c")
    scene.passes(9.9)
    assert scene.state.chain == ()
    scene.passes(0.2)
    assert scene.newest.change is Change.START


def test_a_generation_that_was_being_left_when_its_coordinator_was_lost_is_regrouped() -> None:
    old = running("a", "b")
    scene = after_a_restart(old)
    scene.joins("a", join=join_of(old.newest, 5))
    scene.joins("b", join=join_of(old.newest, 5, last=2))
    scene.passes()
    scene.passes(0.2)
    assert scene.newest.change is Change.URGENT
    assert scene.newest.number == 3
    assert list(scene.newest.names) == ["a", "b"]


def test_a_worker_that_has_gone_on_since_it_joined_is_asked_to_come_back_and_say_so() -> None:
    old = running("a", "b")
    first = old.newest
    old.breaks("a")
    old.passes(0.2)
    scene = after_a_restart(old)
    scene.joins("a", join=join_of(first, 5))
    connection = scene.connection("a")
    scene.happens(events.Entered("a", connection, old.newest.id, 5))
    assert Disconnect("a", connection) in scene.passes()
    scene.joins("a", "b", join=join_of(old.newest, 5))
    scene.passes()
    assert scene.newest.id == old.newest.id


def test_a_leaver_is_not_let_go_while_it_is_not_clear_who_holds_the_model() -> None:
    old = running("a", "b")
    scene = after_a_restart(old)
    scene.joins("a", join=join_of(old.newest, 5))
    scene.leaves("a")
    scene.passes()
    assert released(scene) == []
