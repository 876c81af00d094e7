"""Local SGD written down plainly: one process replays, round by round, who took which local steps in which order."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from crew import Script, Worker
from omnilearn_core.api.strategy import LocalSGD, Outer
from omnilearn_runtime import Session
from omnilearn_runtime.ledger import epoch_order
from plain import Recipe, backward, flat, loss_of

Positions = tuple[int, ...]


@dataclass
class Diary:
    """What each worker computed in each round, in its order: written by the workers' own threads."""

    steps: dict[int, dict[str, list[Positions]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, session: Session, me: Worker) -> None:
        fed = session._fed
        assert fed is not None
        assert fed.piece is not None
        positions = tuple(at for low, high in fed.piece for at in range(low, high))
        with self.lock:
            self.steps[session.step_number][f"{me.name}.{me.attempt}"].append(positions)


def committed(diary: Diary, round_: int, size: int, dead: Sequence[str]) -> dict[str, list[Positions]]:
    """Return whose steps are in a merge: of those who died in its round, only where nobody did their part again."""
    parts = dict(diary.steps[round_])
    for name in dead:
        if sum(len(step) for steps in parts.values() for step in steps) > size:
            parts.pop(name, None)
    assert sorted(at for steps in parts.values() for step in steps for at in step) == sorted(
        {at for steps in parts.values() for step in steps for at in step}
    )
    return parts


def rounds_of(recipe: Recipe, diary: Diary, dead: Sequence[str] = ()) -> Iterator[dict[str, list[list[int]]]]:
    """Yield, for each round, the samples of every local step of each worker."""
    rounds = -(-len(recipe.dataset) // recipe.batch)
    for round_ in range(recipe.steps):
        epoch, at = divmod(round_, rounds)
        size = min(recipe.batch, len(recipe.dataset) - at * recipe.batch)
        order = epoch_order(len(recipe.dataset), 0, epoch, True).tolist()
        parts = committed(diary, round_, size, dead)
        yield {name: [[order[i] for i in step] for step in steps] for name, steps in parts.items()}


def gradients(recipe: Recipe, model: torch.nn.Module, samples: Sequence[int]) -> list[Tensor]:
    """Return the gradients of the mean loss over some samples."""
    x, y = (torch.stack(each) for each in zip(*(recipe.dataset[i] for i in samples), strict=True))
    model.zero_grad()
    backward(loss_of(model, x, y))
    return [each.grad.detach().clone() for each in model.parameters() if each.grad is not None]


def mean(values: Sequence[Sequence[Tensor]], weights: Sequence[float]) -> list[Tensor]:
    """Return the weighted means of lists of tensors."""
    total = sum(weights)
    return [
        torch.stack([w * each for w, each in zip(weights, column, strict=True)]).sum(0) / total
        for column in zip(*values, strict=True)
    ]


def replay(recipe: Recipe, options: LocalSGD, diary: Diary, dead: Sequence[str] = ()) -> Tensor:
    """Return the parameters after all rounds of a diary; every worker's optimizer goes on through all its rounds."""
    model, _, _ = recipe.parts()
    merged = [parameter.detach().clone() for parameter in model.parameters()]
    velocity = [torch.zeros_like(each) for each in merged]
    own: dict[str, tuple[torch.nn.Module, torch.optim.Optimizer]] = {}
    for parts in rounds_of(recipe, diary, dead):
        ways, weights = [], []
        for name, steps in parts.items():
            worker, optimizer = own.setdefault(name, recipe.parts()[:2])
            load(worker, merged)
            for step in steps:
                gradients(recipe, worker, step)
                optimizer.step()
            ways.append([a - b.detach() for a, b in zip(merged, worker.parameters(), strict=True)])
            weights.append(len(steps) ** options.exponent)
        way = mean(ways, weights)
        merged, velocity = outer_step(options, merged, velocity, way)
    load(model, merged)
    return flat(model)


def outer_step(
    options: LocalSGD, merged: list[Tensor], velocity: list[Tensor], way: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Return model and velocity after a merge, as DiLoCo's outer optimizer has it."""
    momentum = 0.0 if options.outer is Outer.NONE else options.outer_momentum_percent / 100
    velocity = [momentum * v + w for v, w in zip(velocity, way, strict=True)]
    nesterov = options.outer is Outer.NESTEROV
    change = [w + momentum * v if nesterov else v for v, w in zip(velocity, way, strict=True)]
    return [x - options.outer_rate * c for x, c in zip(merged, change, strict=True)], velocity


def load(model: torch.nn.Module, values: Sequence[Tensor]) -> None:
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), values, strict=True):
            parameter.copy_(value)


def as_local_script(
    recipe: Recipe, diary: Diary, on_batch: Callable[[Session, Worker], object] = lambda *_: None
) -> Script:
    """Return the training as a script that keeps the diary."""

    def script(session: Session, me: Worker) -> Tensor:
        model, optimizer, _ = recipe.parts()
        session.manage(model, optimizer)
        for _ in session.epochs(recipe.epochs):
            for x, y in session.batches(recipe.dataset):
                on_batch(session, me)
                diary.note(session, me)
                session.step(partial(loss_of, model), x, y)
        return flat(model)

    return script
