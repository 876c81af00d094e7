"""Everything that happens once per update equals one process, for optimizers, schedulers, clipping and scaling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer, RMSprop
from torch.optim import lr_scheduler as schedulers
from torch.utils.data import TensorDataset

from crew import Worker, force_plan, run, values
from omnilearn_runtime import Session
from plain import (
    Recipe,
    as_script,
    backward,
    distance,
    drawn,
    flat,
    global_batches,
    loss_of,
    mlp,
    samples,
    train,
    with_values,
)

RECIPE = Recipe()
UNEVEN = [[0, 5], [5, 0], [3, 3], [1, 0], [8, 0], [0, 0]]


def unevenly() -> Callable[[Session, Worker], None]:
    """Return what gives other shares at every step, zero among them."""
    turns = count()

    def on_batch(session: Session, _: Worker) -> None:
        force_plan(session, UNEVEN[next(turns) % len(UNEVEN)])

    return on_batch


def check(recipe: Recipe, bound: float = 1e-10, **options: Any) -> None:
    workers = run(as_script(recipe, unevenly()), 3, batch=recipe.batch, **options)
    trained = [worker.value for worker in workers if worker.error is None]
    assert all(torch.equal(each, trained[0]) for each in trained)
    assert distance(trained[0], train(recipe)) < bound


OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {
    "momentum and decay": partial(SGD, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "Adam": partial(Adam, lr=0.01),
    "Adam with decay": partial(Adam, lr=0.01, weight_decay=0.1, amsgrad=True),
    "AdamW": partial(AdamW, lr=0.01, weight_decay=0.1),
    "RMSprop": partial(RMSprop, lr=0.001, momentum=0.5),
    "Adagrad": partial(Adagrad, lr=0.05),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_does_what_it_does_in_one_process_also_after_a_death(name: str) -> None:
    check(replace(RECIPE, optimizer=OPTIMIZERS[name]), faults={1: "before-update@5:kill"})


SCHEDULERS: dict[str, tuple[Callable[[Optimizer], Any], bool]] = {
    "per step": (partial(schedulers.LambdaLR, lr_lambda=lambda step: 1.0 / (1 + step)), False),
    "one cycle": (partial(schedulers.OneCycleLR, max_lr=0.2, total_steps=RECIPE.steps + 1), False),
    "in sequence": (
        lambda o: schedulers.SequentialLR(
            o, [schedulers.LinearLR(o, 0.1, total_iters=3), schedulers.CosineAnnealingLR(o, 9)], milestones=[3]
        ),
        False,
    ),
    "per epoch": (partial(schedulers.StepLR, step_size=1, gamma=0.3), True),
}


@pytest.mark.filterwarnings("ignore:The epoch parameter in")
@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_scheduler_steps_once_per_update_or_epoch(name: str) -> None:
    scheduler, per_epoch = SCHEDULERS[name]
    check(replace(RECIPE, scheduler=scheduler, per_epoch=per_epoch, epochs=2), faults={2: "reducing@7:kill"})


def test_the_mean_gradient_is_clipped_and_not_the_parts() -> None:
    check(replace(RECIPE, clip_norm=0.05))


def test_single_precision_stays_within_a_few_roundings() -> None:
    single = TensorDataset(*(each.float() for each in samples().tensors))
    check(replace(RECIPE, dataset=single, model=lambda: mlp().float()), bound=2e-6)


def small_net() -> nn.Module:
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(36, 2)
    )
    return with_values(net, torch.float32)


def test_a_small_convolutional_net_stays_within_a_few_roundings() -> None:
    pictures = TensorDataset(drawn(44, 1, 8, 8, seed=3).float(), drawn(44, 2, seed=4).float())
    check(replace(RECIPE, dataset=pictures, model=small_net), bound=1e-5)


def in_one_process(update: Callable[[nn.Module, Tensor, Tensor], None], model: nn.Module, epochs: int = 2) -> Tensor:
    x, y = samples().tensors
    for epoch in range(epochs):
        for at in global_batches(len(x), epoch):
            update(model, x[at], y[at])
    return flat(model)


def test_a_gradient_scaler_scales_and_unscales_on_all_workers_also_on_those_without_a_share() -> None:
    def script(session: Session, me: Worker) -> Any:
        model, scaler = mlp(), torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3)
        session.manage(model, SGD(model.parameters(), lr=0.1), scaler=scaler, clip_norm=0.5)
        for x, y in session.batches(samples(), epochs=2):
            force_plan(session, [8, 0])
            session.step(loss_of(model, x, y))
        return flat(model), scaler.get_scale()

    model, scaler = mlp(), torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3)
    optimizer = SGD(model.parameters(), lr=0.1)

    def update(model: nn.Module, x: Tensor, y: Tensor) -> None:
        optimizer.zero_grad()
        backward(scaler.scale(loss_of(model, x, y)))
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()

    expected = in_one_process(update, model)
    for trained, scale in values(run(script, 3)):
        assert distance(trained, expected) < 1e-10
        assert scale == scaler.get_scale()


def test_a_worker_that_never_had_a_share_can_use_a_gradient_scaler() -> None:
    def script(session: Session, _: Worker) -> Any:
        model, scaler = mlp(), torch.amp.GradScaler("cpu", init_scale=8.0)
        session.manage(model, SGD(model.parameters(), lr=0.1), scaler=scaler)
        for x, y in session.batches(TensorDataset(*samples(1).tensors)):
            session.step(loss_of(model, x, y))
        return flat(model)

    one, other = values(run(script, 2))
    assert torch.equal(one, other)


def test_a_scaler_that_meets_an_infinite_gradient_skips_the_step_and_halves_its_scale_everywhere() -> None:
    def script(session: Session, _: Worker) -> Any:
        model, scaler = mlp(), torch.amp.GradScaler("cpu", init_scale=8.0)
        session.manage(model, SGD(model.parameters(), lr=0.1), scaler=scaler)
        for x, y in session.batches(samples(24)):
            factor = float("inf") if session.step_number == 1 else 1.0
            session.step(loss_of(model, x, y) * factor)
        return flat(model), scaler.get_scale(), session._rounds.progress.skipped

    (one, scale, skipped), (other, *_) = values(run(script, 2))
    assert torch.equal(one, other)
    assert torch.isfinite(one).all()
    assert (scale, skipped) == (4.0, 1)


def test_several_optimizers_by_name_commit_together_and_reach_a_survivor() -> None:
    def parts() -> tuple[nn.Module, dict[str, Optimizer]]:
        model = mlp()
        body, _, head = model.children()
        return model, {"body": SGD(body.parameters(), lr=0.1, momentum=0.9), "head": Adam(head.parameters(), lr=0.01)}

    def script(session: Session, _: Worker) -> Tensor:
        model, optimizers = parts()
        session.manage(model, optimizers)
        for x, y in session.batches(samples(), epochs=2):
            session.step(loss_of(model, x, y))
        return flat(model)

    model, optimizers = parts()

    def update(model: nn.Module, x: Tensor, y: Tensor) -> None:
        model.zero_grad()
        backward(loss_of(model, x, y))
        for optimizer in optimizers.values():
            optimizer.step()

    workers = run(script, 3, faults={0: "after-update@4:kill"})
    assert distance(workers[2].value, in_one_process(update, model)) < 1e-10


def test_before_update_sees_the_mean_gradient_of_the_global_batch() -> None:
    def script(session: Session, _: Worker) -> Tensor:
        model, seen = mlp(), []
        first = next(model.parameters())
        note = lambda: seen.append(first.grad.clone())  # type: ignore[union-attr] # noqa: E731
        session.manage(model, SGD(model.parameters(), lr=0.0), before_update=note)
        for x, y in session.batches(samples(8), shuffle=False):
            session.step(loss_of(model, x, y))
        return seen[0]

    model = mlp()
    backward(loss_of(model, *samples(8).tensors))
    gradient = next(model.parameters()).grad
    assert gradient is not None
    assert all(distance(each, gradient) < 1e-12 for each in values(run(script, 2)))
