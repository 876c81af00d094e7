"""FedLALR and BVR are what plain, sequential versions of them give."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import SGD, Optimizer

from crew import Crew, Worker, force_plan
from local_steps import Diary, as_local_script, gradients, load, mean, rounds_of
from omnilearn_core.api.strategy import LocalRule, LocalSGD, Strategy, StrategyType
from omnilearn_runtime import Session, UnsuitableError
from plain import Recipe, distance, flat, loss_of, mlp, samples

BATCH, LOCAL, RATE = 16, 2, 0.05


def sgd(parameters: Iterable[Parameter]) -> Optimizer:
    return SGD(parameters, lr=RATE)


RECIPE = Recipe(dataset=samples(76), optimizer=sgd, epochs=4, batch=BATCH)
LONG = replace(RECIPE, epochs=40)
"""Two hundred rounds."""


def play(
    options: dict[str, Any], faults: dict[int, str] | None = None, script: Any = None, recipe: Recipe = RECIPE
) -> tuple[list[Worker], Diary]:
    diary, shares = Diary(), random.Random(3)
    struck = faults or {}

    def unlike(session: Session, _: Worker) -> None:
        force_plan(session, [LOCAL * shares.choice([0, 1, 2, 4]) for _ in range(2)])

    strategy = Strategy(type=StrategyType.LOCAL_SGD, local_sgd=LocalSGD(batch=LOCAL, **options))
    chosen = script or as_local_script(recipe, diary, unlike)
    with Crew(chosen, 3, batch=BATCH, strategy=strategy, tail_percent=0) as crew:
        for number in range(3):
            crew.start(number, struck.get(number, ""))
        return crew.wait(), diary


def value_of(workers: list[Worker], recipe: Recipe = RECIPE) -> Tensor:
    finished = [worker for worker in workers if worker.error is None]
    assert all(torch.equal(worker.value, finished[0].value) for worker in finished)
    progress = finished[0].session._rounds.progress if finished[0].session else None
    assert progress is not None
    assert (progress.lost, progress.doubled, progress.samples) == (0, 0, recipe.epochs * len(recipe.dataset))
    value: Tensor = finished[0].value
    return value


def fedlalr(diary: Diary, recipe: Recipe) -> Tensor:
    """Return what FedLALR gives, written down from its paper."""
    model = mlp()
    merged = [each.detach().clone() for each in model.parameters()]
    first = [torch.zeros_like(each) for each in merged]
    highest = [torch.full_like(each, 1e-16) for each in merged]
    for parts in rounds_of(recipe, diary):
        models, firsts, highests, weights = [], [], [], []
        for steps in parts.values():
            load(model, merged)
            m, v = [each.clone() for each in first], [each.clone() for each in highest]
            top = [each.clone() for each in highest]
            for step in steps:
                found = gradients(recipe, model, step)
                m = [0.9 * a + 0.1 * g for a, g in zip(m, found, strict=True)]
                v = [0.995 * a + 0.005 * g * g for a, g in zip(v, found, strict=True)]
                top = [torch.maximum(a, b) for a, b in zip(top, v, strict=True)]
                now = [p - RATE * a / b.sqrt() for p, a, b in zip(model.parameters(), m, top, strict=True)]
                load(model, now)
            models.append([each.detach().clone() for each in model.parameters()])
            firsts.append(m)
            highests.append(top)
            weights.append(float(len(steps)))
        merged, first, highest = mean(models, weights), mean(firsts, weights), mean(highests, weights)
    load(model, merged)
    return flat(model)


def bvr(diary: Diary, recipe: Recipe) -> Tensor:
    """Return what BVR-L-SGD gives, with models averaged by their steps."""
    model = mlp()
    merged = [each.detach().clone() for each in model.parameters()]
    anchor: list[Tensor] | None = None
    for parts in rounds_of(recipe, diary):
        load(model, merged)
        if anchor is None:
            whole = [sample for steps in parts.values() for step in steps for sample in step]
            anchor = gradients(recipe, model, whole)
            continue
        models, weights = [], []
        for steps in parts.values():
            before, now, direction = merged, merged, [each.clone() for each in anchor]
            for step in steps:
                load(model, now)
                here = gradients(recipe, model, step)
                load(model, before)
                there = gradients(recipe, model, step)
                direction = [v + a - b for v, a, b in zip(direction, here, there, strict=True)]
                before, now = now, [x - RATE * v for x, v in zip(now, direction, strict=True)]
            models.append(now)
            weights.append(float(len(steps)))
        merged, anchor = mean(models, weights), None
    load(model, merged)
    return flat(model)


@pytest.mark.parametrize("fault", ["", "reducing@5:kill", "computing@8:kill", "after-update@4:kill"])
@pytest.mark.parametrize(("rule", "plain"), [(LocalRule.FEDLALR, fedlalr), (LocalRule.BVR, bvr)])
def test_a_rule_gives_what_its_plain_version_gives(rule: LocalRule, plain: Any, fault: str) -> None:
    recipe = RECIPE if fault else LONG
    workers, diary = play({"rule": rule}, {1: fault}, recipe=recipe)
    assert distance(value_of(workers, recipe), plain(diary, recipe)) < 1e-10


def test_variance_reduction_asks_for_a_loss_that_can_be_computed_twice() -> None:
    def script(session: Session, _: Worker) -> None:
        model, optimizer, _unused = RECIPE.parts()
        session.manage(model, optimizer)
        for x, y in session.batches(RECIPE.dataset):
            session.step(loss_of(model, x, y))

    workers, _ = play({"rule": LocalRule.BVR}, script=script)
    assert any(isinstance(each.error, UnsuitableError) and "lambda x, y" in str(each.error) for each in workers)
