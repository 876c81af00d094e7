"""Training as one process would do it, written without the runtime, and the same training as a script for a crew."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.optim import SGD, Optimizer
from torch.utils.data import TensorDataset

from crew import Script, Worker
from omnilearn_runtime import Session
from omnilearn_runtime.ledger import epoch_order

EXPLORE = max(1, int(os.environ.get("EXPLORE", "1")))
"""How many times as many examples to try."""

BATCH = 8

ModelT = TypeVar("ModelT", bound=nn.Module)


def drawn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return random numbers that do not depend on what other threads draw."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def with_values(model: ModelT, dtype: torch.dtype = torch.float64, seed: int = 1) -> ModelT:
    """Return the model with parameters that are the same in every thread."""
    model.to(dtype)
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.copy_(drawn(*parameter.shape, seed=seed + number) / math.sqrt(max(parameter.shape[-1], 1)))
    return model


def mlp() -> nn.Sequential:
    """Return a small network whose gradient does not depend on how a batch is split."""
    return with_values(nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)))


def samples(count: int = 44) -> TensorDataset:
    """Return a small regression dataset; its last batch is short."""
    return TensorDataset(drawn(count, 3, seed=7), drawn(count, 2, seed=8))


def plain_sgd(parameters: Iterable[Parameter]) -> Optimizer:
    """Return an optimizer with momentum."""
    return SGD(parameters, lr=0.1, momentum=0.9)


@dataclass(frozen=True)
class Recipe:
    """What is trained, and how."""

    dataset: Any = field(default_factory=samples)
    model: Callable[[], nn.Module] = mlp
    optimizer: Callable[[Iterable[Parameter]], Optimizer] = plain_sgd
    scheduler: Callable[[Optimizer], Any] | None = None
    per_epoch: bool = False
    clip_norm: float | None = None
    epochs: int = 2
    batch: int = BATCH

    @property
    def steps(self) -> int:
        return self.epochs * -(-len(self.dataset) // self.batch)

    def parts(self) -> tuple[nn.Module, Optimizer, Any]:
        model = self.model()
        optimizer = self.optimizer(model.parameters())
        return model, optimizer, None if self.scheduler is None else self.scheduler(optimizer)


def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return nn.functional.mse_loss(model(x), y)


def flat(model: nn.Module) -> Tensor:
    """Return all parameters as one vector."""
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])


def backward(loss: Tensor) -> None:
    """Run backward, for type checkers: torch does not say its types."""
    loss.backward()  # type: ignore[no-untyped-call]


def global_batches(size: int, epoch: int, batch: int = BATCH) -> list[list[int]]:
    """Return the samples of each step of an epoch."""
    order = [int(each) for each in epoch_order(size, 0, epoch, True)]
    return [order[at : at + batch] for at in range(0, size, batch)]


def train(recipe: Recipe) -> Tensor:
    """Return the parameters after training in one process: one global batch after the other."""
    model, optimizer, scheduler = recipe.parts()
    for epoch in range(recipe.epochs):
        for at in global_batches(len(recipe.dataset), epoch, recipe.batch):
            x, y = (torch.stack(each) for each in zip(*(recipe.dataset[i] for i in at), strict=True))
            optimizer.zero_grad()
            backward(loss_of(model, x, y))
            if recipe.clip_norm is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip_norm)
            optimizer.step()
            if scheduler is not None and not recipe.per_epoch:
                scheduler.step()
        if scheduler is not None and recipe.per_epoch:
            scheduler.step()
    return flat(model)


def as_script(recipe: Recipe, on_batch: Callable[[Session, Worker], object] = lambda *_: None) -> Script:
    """Return the same training for workers; ``on_batch`` is called before each step."""

    def script(session: Session, me: Worker) -> Tensor:
        model, optimizer, scheduler = recipe.parts()
        session.manage(
            model, optimizer, scheduler=scheduler, scheduler_per_epoch=recipe.per_epoch, clip_norm=recipe.clip_norm
        )
        for _ in session.epochs(recipe.epochs):
            for x, y in session.batches(recipe.dataset):
                on_batch(session, me)
                session.step(loss_of(model, x, y))
        return flat(model)

    return script


def distance(one: Tensor, other: Tensor) -> float:
    """Return the largest difference."""
    return float((one.double() - other.double()).abs().max())
