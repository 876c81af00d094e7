"""Local SGD is what a plain replay of the same local steps gives, through losses and joins."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.nn import Parameter
from torch.optim import SGD, Optimizer

from crew import Crew, Worker, force_plan, values
from local_steps import Diary, as_local_script, replay
from omnilearn_core.api.strategy import Aggregation, LocalSGD, Outer, Strategy, StrategyType
from omnilearn_runtime import Session
from omnilearn_runtime.link import RefusedError
from plain import EXPLORE, Recipe, backward, distance, flat, global_batches, loss_of, samples, train

BATCH, LOCAL = 16, 2
DATASET = samples(76)


def without_momentum(parameters: Iterable[Parameter]) -> Optimizer:
    return SGD(parameters, lr=0.05)


RECIPE = Recipe(dataset=DATASET, epochs=2, batch=BATCH)
# A small rate: at 0.01, Nesterov's outer steps were 8e-8 apart after two hundred rounds, the others below 1e-10. That
# rounding grows there, and nothing else, is likely, and was not shown.
LONG = replace(RECIPE, epochs=40, optimizer=lambda each: SGD(each, lr=0.001, momentum=0.9))
PLAIN = Recipe(dataset=DATASET, optimizer=without_momentum, epochs=2, batch=BATCH)


def strategy(**options: Any) -> Strategy:
    return Strategy(type=StrategyType.LOCAL_SGD, local_sgd=LocalSGD(batch=LOCAL, **options))


def play(
    recipe: Recipe, chosen: Strategy, faults: dict[int, str], on_batch: Any = lambda *_: None
) -> tuple[list[Worker], Diary]:
    diary = Diary()
    script = as_local_script(recipe, diary, on_batch)
    with Crew(script, len(faults), batch=recipe.batch, strategy=chosen, start_wait=0.2, tail_percent=0) as crew:
        for number, each in faults.items():
            crew.start(number, each)
        return crew.wait(), diary


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
    [
        {},
        {"aggregation": Aggregation.UNIFORM},
        {"exponent_percent": 50},
        {"outer": Outer.MOMENTUM, "outer_momentum_percent": 50},
        {"outer": Outer.NESTEROV},
    ],
    ids=["by-steps", "uniform", "between", "momentum", "nesterov"],
)
def test_unlike_workers_end_where_a_plain_replay_ends(options: dict[str, Any]) -> None:
    chosen = strategy(**options)
    shares = random.Random(3)

    def unlike(session: Session, _: Worker) -> None:
        force_plan(session, [LOCAL * shares.choice([0, 1, 2, 4]) for _ in range(2)])

    workers, diary = play(LONG, chosen, dict.fromkeys(range(3), ""), unlike)
    assert distance(check(LONG, workers), replay(LONG, chosen.local, diary)) < 1e-10


def test_one_worker_with_one_local_step_a_round_is_plain_sgd() -> None:
    chosen = Strategy(type=StrategyType.LOCAL_SGD, local_sgd=LocalSGD(batch=BATCH))
    workers, _ = play(RECIPE, chosen, {0: ""})
    assert distance(check(RECIPE, workers), train(RECIPE)) < 1e-10


def test_alike_workers_with_one_local_step_a_round_are_plain_sgd() -> None:
    chosen = Strategy(type=StrategyType.LOCAL_SGD, local_sgd=LocalSGD(batch=BATCH // 2))
    recipe = Recipe(dataset=samples(80), optimizer=without_momentum, epochs=2, batch=BATCH)
    workers, _ = play(recipe, chosen, dict.fromkeys(range(2), ""))
    assert distance(check(recipe, workers), train(recipe)) < 1e-10


POINTS = ("computing", "reducing", "before-update", "after-update", "roll-call", "entered", "switching")


@settings(
    max_examples=20 * EXPLORE,
    deadline=None,
    derandomize=EXPLORE == 1,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(
    point=st.sampled_from(POINTS),
    round_=st.integers(0, PLAIN.steps - 1),
    deed=st.sampled_from(["kill", "kill", "terminate"]),
    struck=st.integers(0, 2),
)
def test_a_worker_that_dies_costs_no_sample_and_the_rest_is_as_replayed(
    point: str, round_: int, deed: str, struck: int
) -> None:
    chosen = strategy(outer=Outer.NESTEROV)
    faults = {number: f"{point}@{round_}:{deed}" if number == struck else "" for number in range(3)}
    workers, diary = play(PLAIN, chosen, faults)
    value = check(PLAIN, workers)
    assert distance(value, replay(PLAIN, chosen.local, diary)) < 1e-10


def without_round(recipe: Recipe, bad: int) -> torch.Tensor:
    """Return where one worker's local steps end in one process that leaves a round out."""
    model, optimizer, _ = recipe.parts()
    batches = [each for epoch in range(recipe.epochs) for each in global_batches(len(DATASET), epoch, recipe.batch)]
    for number, batch in enumerate(batches):
        for at in range(0, 0 if number == bad else len(batch), LOCAL):
            x, y = (torch.stack(each) for each in zip(*(DATASET[i] for i in batch[at : at + LOCAL]), strict=True))
            optimizer.zero_grad()
            backward(loss_of(model, x, y))
            optimizer.step()
    return flat(model)


@pytest.mark.parametrize("bad", [0, 3])
def test_a_round_that_is_not_finite_leaves_nothing_in_the_optimizer(bad: int) -> None:
    def script(session: Session, _: Worker) -> torch.Tensor:
        model, optimizer, _unused = RECIPE.parts()
        session.manage(model, optimizer)
        for seen, (x, y) in enumerate(session.batches(DATASET, epochs=RECIPE.epochs)):
            spoilt = seen == bad * BATCH // LOCAL + 2
            session.step(loss_of(model, x, y) * (math.nan if spoilt else 1.0))
        assert session._rounds.progress.skipped == 1
        return flat(model)

    with Crew(script, 1, batch=BATCH, strategy=strategy(), start_wait=0.2, tail_percent=0) as crew:
        crew.start(0)
        (trained,) = values(crew.wait())
    assert distance(trained, without_round(RECIPE, bad)) < 1e-10
