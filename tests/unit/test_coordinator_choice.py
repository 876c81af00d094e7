"""Auto in the coordinator: when it chooses, from what, and that a choice is for good."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from coordination import SETTINGS, Scene, Site, Talker, join_of, running, serve
from omnilearn_coordinator import probe
from omnilearn_coordinator.membership import events
from omnilearn_coordinator.membership.actions import Happening, Kind
from omnilearn_coordinator.membership.generation import Generation
from omnilearn_coordinator.probe import Probe, chosen_by, known_by, question_of
from omnilearn_coordinator.settings import GroupSettings, JobSettings
from omnilearn_core.api.messages import (
    Assignment,
    Built,
    Change,
    Entered,
    GenerationId,
    MemberAddress,
    Plan,
    Reply,
    WorkerReport,
)
from omnilearn_core.api.strategy import Choice, LocalSteps, Strategy, StrategyType
from omnilearn_core.simulate.strategies import balanced, synchronous

AUTO = replace(SETTINGS, strategy=Strategy(type=StrategyType.AUTO), expected=2, min_per_worker=0)
LOCAL = Choice(type=StrategyType.LOCAL_SGD, interval=8, why="it was measured")
NAMES = ("job-w-0", "job-w-1")
ID = GenerationId(number=1, nonce="n")
PLAN = Plan(generation=ID, version=1, global_batch=64, shares=dict.fromkeys(NAMES, 32))
GENERATION = Generation(
    ID,
    Change.START,
    tuple(MemberAddress(worker=name, attempt=0, device="cpu", address="127.0.0.1", port=1) for name in NAMES),
    assigned=0.0,
    entered=frozenset(NAMES),
)


def report(worker: str = NAMES[0], exchange: float | None = 0.3, **changes: Any) -> WorkerReport:
    """Return what a worker says that computes for 0.1 s."""
    said = WorkerReport(
        worker=worker,
        generation=ID,
        plan_version=1,
        step=5,
        share=32,
        steps=5,
        compute_seconds=0.1,
        reduce_seconds=0.3,
        step_seconds=0.4,
        exchange_seconds=exchange,
        team_exchange_seconds=exchange,
    )
    return said.model_copy(update=changes)


def reports(**changes: Any) -> dict[str, WorkerReport]:
    return {name: report(name, **changes) for name in NAMES}


# What is asked of the model


def test_the_model_is_asked_with_the_measured_times() -> None:
    asked = question_of(AUTO, [*reports(reduce_seconds=0.1).values()])
    assert asked.exchange_seconds == pytest.approx(0.3)
    assert asked.exposed_seconds == pytest.approx(0.1)
    assert synchronous(asked, balanced(asked), "").update_seconds == pytest.approx(0.2)


def test_an_exchange_inside_of_groups_is_that_of_the_slowest_and_one_alone_has_none() -> None:
    groups = {f"job-{name}": GroupSettings(name) for name in "abc"}
    times = {"job-a-0": 0.01, "job-a-1": 0.02, "job-b-0": 0.04, "job-b-1": 0.06, "job-c-0": 9.0}
    asked = question_of(
        replace(AUTO, groups=groups), [report(name, team_exchange_seconds=each) for name, each in times.items()]
    )
    assert asked.inside_seconds == pytest.approx(0.05)
    assert asked.groups == {"a": 2, "b": 2, "c": 1}


def test_whatever_workers_claim_something_is_chosen() -> None:
    for exchange in (0.0, 1e-12, 1e9):
        for compute in (0.0, 1e9):
            for share in (0, 32):
                said = reports(exchange=exchange, compute_seconds=compute, share=share)
                assert chosen_by(AUTO, [*said.values()]).why


def test_bounds_that_cannot_be_kept_leave_it_at_synchronous() -> None:
    assert chosen_by(replace(AUTO, max_per_worker=1), [*reports().values()]).strategy == "Synchronous"


@pytest.mark.parametrize("never", [StrategyType.AUTO, StrategyType.ASYNCHRONOUS])
def test_no_worker_can_claim_that_something_was_chosen_that_never_is(never: StrategyType) -> None:
    with pytest.raises(ValueError, match="never chooses"):
        Choice(type=never)


def test_a_choice_has_all_options() -> None:
    local = LOCAL.strategy.local
    assert (local.steps, local.interval, LOCAL.strategy.unit) == (LocalSteps.SHARES, 8, 1)
    groups = Choice(type=StrategyType.HIERARCHICAL, interval=4).strategy.in_groups
    assert (groups.interval, groups.max_interval, groups.warmup_epochs, groups.cooldown_epochs) == (4, 4, 0, 0)


# When it is asked


# An exchange that is worth something else, and one for which that is clear at first sight
WORTH = {"exchange": 0.04, "reduce_seconds": 0.04}
CLEAR = {"exchange": 0.3, "reduce_seconds": 0.3}


def test_it_is_asked_when_the_shares_have_stood_for_a_while() -> None:
    each = Probe(AUTO)
    assert each.look(GENERATION, PLAN, reports(**WORTH), 100.0) is None
    assert each.look(GENERATION, PLAN, reports(**WORTH), 102.0) is None
    moved = PLAN.model_copy(update={"version": 2})
    assert each.look(GENERATION, moved, reports(**WORTH), 103.5) is None
    assert each.look(GENERATION, moved, reports(plan_version=2, **WORTH), 105.0) is None
    found = each.look(GENERATION, moved, reports(plan_version=2, **WORTH), 107.0)
    assert found is not None
    assert found.type is StrategyType.LOCAL_SGD


def test_a_gain_that_is_clear_at_first_sight_waits_for_no_shares() -> None:
    found = Probe(AUTO).look(GENERATION, PLAN, reports(**CLEAR), 100.0)
    assert found is not None and found.type is StrategyType.LOCAL_SGD  # noqa: PT018


def test_shares_that_never_rest_are_not_waited_for_for_ever() -> None:
    each = Probe(AUTO)
    for at in range(9):
        moving = PLAN.model_copy(update={"version": at + 1})
        assert each.look(GENERATION, moving, reports(**WORTH), 100.0 + at) is None
    assert each.look(GENERATION, PLAN, reports(**WORTH), 111.0) is not None


@pytest.mark.parametrize(
    ("generation", "said"),
    [
        (GENERATION, {NAMES[0]: report()}),
        (GENERATION, {NAMES[0]: report(), NAMES[1]: report(NAMES[1], None)}),
        (replace(GENERATION, id=GenerationId(number=2, nonce="n")), reports()),
        (replace(GENERATION, entered=frozenset(NAMES[:1])), reports()),
        (replace(GENERATION, members=GENERATION.members[:1], entered=frozenset(NAMES[:1])), reports()),
    ],
    ids=["one was not heard", "one has not measured", "an earlier generation", "one is on its way", "one worker"],
)
def test_it_is_not_asked_before_all_of_several_members_have_measured(
    generation: Generation, said: dict[str, WorkerReport]
) -> None:
    each = Probe(AUTO)
    assert each.look(generation, PLAN, said, 100.0) is None
    assert each.look(generation, PLAN, said, 200.0) is None


def test_an_exchange_that_is_told_without_steps_is_added_to_those_that_were() -> None:
    before, after = report(exchange=None), report(exchange=0.2, steps=0, compute_seconds=0.0)
    known = known_by(after, before)
    assert known is not None
    assert (known.exchange_seconds, known.steps, known.compute_seconds) == (0.2, 5, 0.1)
    elsewhere = before.model_copy(update={"generation": GenerationId(number=2, nonce="n")})
    assert (known_by(after, None), known_by(after, elsewhere)) == (None, elsewhere)


# What becomes of it


def chosen() -> Scene:
    scene = running("w-0", "w-1", strategy=AUTO.strategy)
    scene.happens(events.Chosen(LOCAL))
    scene.passes()
    return scene


def test_a_choice_is_told_and_counts_in_a_planned_generation_of_the_same_members() -> None:
    scene = chosen()
    assert scene.told(Kind.CHOSEN) == ["LocalSGD, because it was measured"]
    assert (scene.newest.number, scene.newest.change, scene.newest.choice) == (2, Change.PLANNED, LOCAL)
    assert scene.newest.names == ("w-0", "w-1")
    assert not scene.fresh()
    scene.enters()
    scene.passes(1.0)
    assert scene.newest.number == 2


def test_only_the_first_choice_counts_and_only_where_it_is_auto() -> None:
    scene = chosen()
    scene.happens(events.Chosen(Choice(type=StrategyType.SYNCHRONOUS)))
    assert scene.state.choice == LOCAL
    other = running("w-0", "w-1")
    other.happens(events.Chosen(LOCAL))
    assert other.state.choice is None


def test_a_worker_lost_on_the_way_and_one_that_joins_later_get_the_choice_too() -> None:
    scene = chosen()
    scene.closes("w-1")
    scene.passes()
    assert (scene.newest.change, scene.newest.choice) == (Change.URGENT, LOCAL)
    scene.enters()
    scene.joins("w-2")
    scene.passes(1.0)
    assert (scene.newest.change, scene.newest.choice, scene.fresh()) == (Change.PLANNED, LOCAL, {"w-2"})


def test_a_choice_outlives_all_workers() -> None:
    scene = chosen()
    scene.closes("w-0", "w-1")
    scene.passes()
    scene.joins("w-0", "w-1", attempt=1)
    scene.passes(20.0)
    assert (scene.newest.change, scene.newest.choice) == (Change.START, LOCAL)


def test_a_new_coordinator_takes_the_choice_from_the_members_and_chooses_no_more() -> None:
    before = chosen()
    before.enters()
    scene = Scene(AUTO)
    join = join_of(before.newest, 7).model_copy(update={"choice": LOCAL})
    scene.joins("w-0", "w-1", join=join)
    scene.passes()
    assert (scene.state.choice, scene.newest.choice, scene.state.is_choosing) == (LOCAL, LOCAL, False)
    assert scene.newest.number == before.newest.number


def test_what_members_of_another_strategy_claim_to_have_chosen_is_nothing() -> None:
    before = running("w-0", "w-1")
    scene = Scene(SETTINGS)
    scene.joins("w-0", "w-1", join=join_of(before.newest, 7).model_copy(update={"choice": LOCAL}))
    scene.passes()
    assert scene.state.choice is None


def test_a_choice_that_nobody_had_heard_of_when_the_coordinator_was_lost_counts_after_it() -> None:
    before = running("w-0", "w-1", strategy=AUTO.strategy)
    scene = Scene(AUTO)
    scene.state = replace(scene.state, choice=LOCAL)  # as the job's status says
    scene.joins("w-0", "w-1", join=join_of(before.newest, 7))
    scene.passes()
    scene.passes(1.0)
    assert (scene.newest.number, scene.newest.change, scene.newest.choice) == (2, Change.PLANNED, LOCAL)


# Over the wire


async def measure(talkers: list[Talker], assignment: Assignment) -> None:
    for talker in talkers:
        said = talker.report(
            assignment.plan, exchange_seconds=0.3, team_exchange_seconds=0.3, reduce_seconds=0.3, steps=5
        )
        await talker.say(said)


def test_workers_that_measured_a_slow_exchange_are_told_and_a_new_coordinator_asks_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probe, "_SETTLED_REPORTS", 0.0)
    settings: JobSettings = replace(AUTO, law="Uniform", start_wait=0.1)

    async def scene(site: Site) -> None:
        talkers = await site.running(*NAMES)
        first = talkers[0].assignment
        assert first is not None
        assert first.choice is None
        await measure(talkers, first)
        second = await talkers[0].hear(Assignment)
        assert second.choice is not None
        assert second.choice.type is StrategyType.LOCAL_SGD
        for talker in talkers:
            await talker.say(Built(generation=second.generation))
            await talker.say(Entered(generation=second.generation, round=5))
        await site.until(lambda: site.coordinator.snapshot().generation == 2)
        assert site.coordinator.snapshot().choice == second.choice
        await site.coordinator.stop()
        await site.start(term=2)
        told: list[Happening] = []
        site.coordinator._driver._tell = told.append
        again = [await site.worker(name) for name in NAMES]
        for talker in again:
            await talker.join(
                generation=second.generation, members=second.members, plan=second.plan, choice=second.choice, round=5
            )
        await site.until(lambda: site.coordinator.snapshot().generation == 2)
        await measure(again, second)
        for talker in again:
            await talker.hear(Reply)
        assert site.coordinator.snapshot().choice == second.choice
        assert site.coordinator.snapshot().generation == 2
        assert not [each for each in told if each.kind is Kind.CHOSEN]

    serve(settings, scene)
