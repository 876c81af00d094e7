"""From reports to plans."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordination import SETTINGS
from omnilearn_coordinator.control import Control
from omnilearn_coordinator.membership.generation import Generation
from omnilearn_coordinator.settings import JobSettings
from omnilearn_core.api.messages import Change, GenerationId, MemberAddress, Plan, WorkerReport
from omnilearn_core.api.strategy import Asynchronous, Strategy, StrategyType


def generation(number: int, *workers: str) -> Generation:
    members = tuple(MemberAddress(worker=w, attempt=0, device="cpu", address="localhost", port=1) for w in workers)
    return Generation(GenerationId(number=number, nonce="n"), Change.START, members, 0.0)


def report(plan: Plan, worker: str, seconds: float, **changes: object) -> WorkerReport:
    said = WorkerReport(
        worker=worker,
        generation=plan.generation,
        plan_version=plan.version,
        step=1,
        share=plan.shares[worker],
        steps=1,
        compute_seconds=seconds,
    )
    return said.model_copy(update=changes)


def begun(settings: JobSettings = SETTINGS) -> tuple[Control, Plan]:
    control = Control(settings)
    return control, control.begin(generation(1, "a", "b"), 0.0)


def test_a_generation_begins_with_a_plan_that_sums_to_the_global_batch() -> None:
    _, plan = begun()
    assert plan.shares == {"a": 32, "b": 32}


def test_the_period_ends_when_every_member_has_reported() -> None:
    control, plan = begun()
    control.hear(report(plan, "a", 0.1), 1.0)
    assert control.look(1.0) is None
    control.hear(report(plan, "b", 0.3), 1.1)
    newer = control.look(1.1)
    assert newer is not None
    assert newer.version > plan.version
    assert newer.shares["a"] > newer.shares["b"]
    assert control.decisions[-1].at == 1.1


def test_the_period_ends_two_seconds_after_the_first_report() -> None:
    control, plan = begun()
    control.hear(report(plan, "a", 0.1), 9.0)
    control.look(10.9)
    assert control._measured
    control.look(11.1)
    assert not control._measured


@pytest.mark.parametrize("changes", [{"plan_version": 7}, {"share": 3}, {"steps": 0}])
def test_reports_of_another_plan_are_not_used(changes: dict[str, object]) -> None:
    control, plan = begun()
    control.hear(report(plan, "a", 0.1, **changes), 1.0)
    control.hear(report(plan, "b", 0.9, **changes), 1.0)
    assert control.look(9.0) is None


def test_reports_of_another_generation_are_not_used() -> None:
    control, plan = begun()
    control.begin(generation(2, "a", "b"), 1.0)
    control.hear(report(plan, "a", 0.1), 1.0)
    control.hear(report(plan, "b", 0.9), 1.0)
    assert control.look(9.0) is None


def test_speeds_are_remembered_when_the_members_change() -> None:
    control, plan = begun()
    control.hear(report(plan, "a", 0.1), 1.0)
    control.hear(report(plan, "b", 0.4), 1.0)
    control.look(1.0)
    shares = control.begin(generation(2, "a", "b", "c"), 2.0).shares
    assert shares["a"] > shares["b"]


def test_there_is_a_tail_as_soon_as_steps_are_known_to_last_and_the_law_splits_the_rest() -> None:
    control, plan = begun()
    assert plan.tail == 0
    control.hear(report(plan, "a", 0.4), 1.0)
    control.hear(report(plan, "b", 0.8), 1.0)
    newer = control.look(1.0)
    assert newer is not None
    assert newer.tail == 19
    assert sum(newer.shares.values()) == SETTINGS.global_batch - 19


def test_a_model_that_looks_at_batches_as_a_whole_has_no_tail() -> None:
    control, plan = begun()
    control.hear(report(plan, "a", 0.4, in_pieces=False), 1.0)
    control.hear(report(plan, "b", 0.8), 1.0)
    newer = control.look(1.0)
    assert newer is not None
    assert newer.tail == 0


def test_another_coordinator_keeps_the_tail() -> None:
    control, plan = begun(replace(SETTINGS, tail_percent=25))
    other = Control(replace(SETTINGS, tail_percent=25))
    other.adopt(generation(1, "a", "b"), plan, control.state_to_keep(), 500.0)
    assert other.plan == plan
    assert plan.tail == 16


@pytest.mark.parametrize("bounds", [{"min_per_worker": 40}, {"max_per_worker": 20}, {"max_per_worker": 1}])
def test_bounds_that_cannot_be_kept_still_give_a_plan(bounds: dict[str, int]) -> None:
    control, plan = begun(replace(SETTINGS, **bounds))  # type: ignore[arg-type]
    assert sum(plan.shares.values()) == SETTINGS.global_batch
    assert control.impossible is not None


def test_more_members_than_samples_still_give_a_plan() -> None:
    control = Control(replace(SETTINGS, global_batch=2))
    assert sorted(control.begin(generation(1, "a", "b", "c"), 0.0).shares.values()) == [0, 1, 1]


def test_the_state_of_the_law_is_given_away_only_when_it_has_changed() -> None:
    control, plan = begun()
    assert control.state_to_keep() is not None
    assert control.state_to_keep() is None
    control.hear(report(plan, "a", 0.1), 1.0)
    control.look(3.0)
    assert control.state_to_keep() is not None


def test_another_coordinator_goes_on_with_plan_and_state() -> None:
    control, plan = begun()
    control.hear(report(plan, "a", 0.1), 1.0)
    control.hear(report(plan, "b", 0.4), 1.0)
    newer = control.look(1.0)
    assert newer is not None
    other = Control(SETTINGS)
    assert other.adopt(generation(1, "a", "b"), newer, control.state_to_keep(), 500.0) is None
    assert other.plan == newer
    for now in (501.0, 502.0, 503.0):
        assert other.plan is not None
        other.hear(report(other.plan, "a", other.plan.shares["a"] * 0.1), now)
        other.hear(report(other.plan, "b", other.plan.shares["b"] * 0.01), now)
        other.look(now)
    assert other.plan is not None
    assert other.plan.version > newer.version
    assert other.plan.shares["b"] > other.plan.shares["a"]


@pytest.mark.parametrize("text", ["", "{}", '{"law": "Affine"}', "\x00"])
def test_a_damaged_state_of_the_law_starts_it_afresh_with_a_sentence(text: str) -> None:
    _, plan = begun()
    other = Control(SETTINGS)
    assert "afresh" in (other.adopt(generation(1, "a", "b"), plan, text, 500.0) or "")
    assert other.plan == plan


@pytest.mark.parametrize("law", ["Uniform", "Static", "Proportional", "PerEpoch", "Affine"])
def test_a_worker_that_only_serves_has_no_share_unless_it_is_alone(law: str) -> None:
    strategy = Strategy(type=StrategyType.ASYNCHRONOUS, asynchronous=Asynchronous(server_group="s"))
    settings = replace(SETTINGS, law=law, strategy=strategy, tail_percent=0)
    server, others = f"{settings.name}-s-0", [f"{settings.name}-w-{number}" for number in range(2)]
    control = Control(settings)
    plan = control.begin(generation(1, server, *others), 0.0)
    for at in range(1, 4):
        for number, worker in enumerate(others, 1):
            control.hear(report(plan, worker, 0.1 * number), float(at))
        plan = control.look(at + 2.5) or plan
    assert plan.shares[server] == 0
    assert sum(plan.shares.values()) == settings.global_batch
    assert control.impossible is None
    assert control.begin(generation(2, server), 9.0).shares == {server: settings.global_batch}
