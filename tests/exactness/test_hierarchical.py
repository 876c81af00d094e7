"""Hierarchical training is what a plain replay of the same steps gives, through losses and joins."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.optim import SGD

from crew import Crew, Worker, await_joiner, force_plan
from omnilearn_core.api.strategy import Hierarchical, Strategy, StrategyType
from omnilearn_runtime import Session
from omnilearn_runtime.link import RefusedError
from plain import EXPLORE, Recipe, distance, samples, train
from team_steps import Logbook, as_team_script, replay

BATCH = 8
DATASET = samples(76)
RECIPE = Recipe(dataset=DATASET, optimizer=lambda each: SGD(each, lr=0.02, momentum=0.9), epochs=4, batch=BATCH)
LONG = replace(RECIPE, epochs=30)
PLAIN = Recipe(dataset=DATASET, optimizer=lambda each: SGD(each, lr=0.05), epochs=4, batch=BATCH)


def strategy(**options: Any) -> Strategy:
    return Strategy(type=StrategyType.HIERARCHICAL, hierarchical=Hierarchical(**options))


def play(
    recipe: Recipe, chosen: Strategy, groups: str, faults: dict[int, str] | None = None, on_batch: Any = None
) -> tuple[list[Worker], Logbook]:
    book = Logbook()
    script = as_team_script(recipe, book, on_batch or (lambda *_: None))
    with Crew(script, len(groups), batch=recipe.batch, strategy=chosen, start_wait=0.2, tail_percent=0) as crew:
        crew.groups = groups
        for number in range(len(groups)):
            crew.start(number, (faults or {}).get(number, ""))
        crew.wait()
    assert book.are_in_step()
    return crew.workers, book


def check(recipe: Recipe, workers: list[Worker]) -> torch.Tensor:
    finished = [worker for worker in workers if worker.error is None]
    assert not [each.error for each in workers if not isinstance(each.error, SystemExit | RefusedError | None)]
    for worker in finished:
        assert worker.session is not None
        progress = worker.session._rounds.progress
        assert (progress.step, progress.samples) == (recipe.steps, recipe.epochs * len(recipe.dataset))
        assert (progress.lost, progress.doubled, progress.skipped) == (0, 0, 0)
        assert torch.equal(worker.value, finished[0].value)
    value: torch.Tensor = finished[0].value
    return value


@pytest.mark.parametrize(
    "options",
    [{}, {"wait": 3}, {"interval": 1, "wait": 2}, {"interval": 2, "warmup_epochs": 0, "cooldown_epochs": 0}],
    ids=["usual", "waits-long", "every-step", "always-cycling"],
)
def test_unlike_teams_end_where_a_plain_replay_ends(options: dict[str, Any]) -> None:
    chosen = strategy(**options)
    shares = random.Random(3)

    def unlike(session: Session, _: Worker) -> None:
        force_plan(session, [shares.choice([0, 1, 2, 3]) for _ in range(3)])

    workers, book = play(LONG, chosen, "abbc", on_batch=unlike)
    assert distance(check(LONG, workers), replay(LONG, chosen.in_groups, book)) < 1e-10


def test_rounds_are_single_steps_in_warm_up_and_cool_down_and_long_between() -> None:
    workers, book = play(RECIPE, strategy(interval=4), "abb")
    check(RECIPE, workers)
    assert book.lengths() == [1] * 10 + [4, 4, 2] * 2 + [1] * 10


def test_one_group_is_plain_sgd() -> None:
    workers, book = play(RECIPE, strategy(interval=4), "aaa")
    assert 4 in book.lengths()
    assert distance(check(RECIPE, workers), train(RECIPE)) < 1e-10


def test_one_worker_is_plain_sgd() -> None:
    workers, _ = play(RECIPE, strategy(interval=4), "a")
    assert distance(check(RECIPE, workers), train(RECIPE)) < 1e-10


def test_groups_of_equal_speed_that_merge_after_every_step_are_plain_sgd() -> None:
    recipe = Recipe(dataset=samples(80), epochs=2, batch=BATCH)
    workers, _ = play(recipe, strategy(warmup_epochs=2), "aabb")
    assert distance(check(recipe, workers), train(recipe)) < 1e-10


POINTS = ("computing", "first-bucket", "reducing", "before-update", "after-update", "roll-call", "entered", "switching")


@settings(
    max_examples=24 * EXPLORE,
    deadline=None,
    derandomize=EXPLORE == 1,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(
    point=st.sampled_from(POINTS),
    round_=st.integers(0, 24),
    deed=st.sampled_from(["kill", "kill", "terminate"]),
    struck=st.sampled_from([(0,), (1,), (2,), (1, 2)]),
)
def test_workers_and_whole_groups_that_die_cost_no_sample_and_the_rest_is_as_replayed(
    point: str, round_: int, deed: str, struck: tuple[int, ...]
) -> None:
    chosen = strategy(interval=3, wait=2)
    faults = dict.fromkeys(struck, f"{point}@{round_}:{deed}")
    workers, book = play(PLAIN, chosen, "abb", faults)
    value = check(PLAIN, workers)
    assert distance(value, replay(PLAIN, chosen.in_groups, book)) < 1e-10


@pytest.mark.parametrize("group", ["a", "b", "c"])
def test_a_joiner_catches_up_in_a_small_a_large_or_a_new_group(group: str) -> None:
    chosen, book = strategy(interval=3), Logbook()
    started: list[Worker] = []

    def on_batch(session: Session, me: Worker) -> None:
        me.notes["trained"] = True
        if session.step_number >= 14 and me.name == "job-a-0" and not started:
            crew.groups = f"abb{group}"
            started.append(crew.start(3))
        if started and session.step_number < 24 and (current := session._membership.current) and current.size < 4:
            await_joiner(session)

    script = as_team_script(PLAIN, book, on_batch)
    with Crew(script, 3, batch=BATCH, strategy=chosen, start_wait=0.2, tail_percent=0) as crew:
        crew.groups = "abb"
        for number in range(3):
            crew.start(number)
        started[:] = []
        crew.wait()
        workers = crew.workers
    assert started[0].notes["trained"]
    assert book.are_in_step()
    assert distance(check(PLAIN, workers), replay(PLAIN, chosen.in_groups, book)) < 1e-10
