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
from omnilearn_runtime.element import Kind
from omnilearn_runtime.ledger import Intervals, epoch_order
from omnilearn_runtime.work import Committed
from plain import Recipe, backward, flat, loss_of

Positions = tuple[int, ...]


@dataclass
class Diary:
    """What each worker computed in each round, in its order, and what of it was committed."""

    steps: dict[int, dict[str, list[Positions]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    held: dict[int, dict[str, set[int]]] = field(default_factory=lambda: defaultdict(dict))
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, session: Session, me: Worker) -> None:
        """Note the micro-batch that is about to be stepped."""
        fed = session._fed
        assert fed is not None
        assert fed.piece is not None
        with self.lock:
            self.steps[session.step_number][_name(me)].append(tuple(_positions(fed.piece)))

    def follow(self, session: Session, me: Worker) -> None:
        """Note what this worker holds of each round that it commits."""
        rounds = session._rounds
        tell = rounds._on_commit

        def committed(round_: Committed) -> None:
            if round_.kind is Kind.STEP:
                with self.lock:
                    self.held[round_.progress.step - 1][_name(me)] = set(_positions(round_.held))
            tell(round_)

        rounds._on_commit = committed


def _name(me: Worker) -> str:
    return f"{me.name}.{me.attempt}"


def _positions(intervals: Intervals) -> Iterator[int]:
    return (at for low, high in intervals for at in range(low, high))


def committed(diary: Diary, round_: int, size: int) -> dict[str, list[Positions]]:
    """Return whose steps are in a merge: what was held at its commit, and what those had brought who did not see it."""
    parts: dict[str, list[Positions]] = {}
    for name, held in diary.held[round_].items():
        # A step that was taken and then given up was taken again by somebody: the last one counts.
        latest = dict.fromkeys(step for step in diary.steps[round_][name] if held.issuperset(step))
        parts[name] = list(latest)
    taken = {at for steps in parts.values() for step in steps for at in step}
    for name in diary.steps[round_].keys() - diary.held[round_].keys():
        brought = [step for step in diary.steps[round_][name] if taken.isdisjoint(step)]
        if len(taken) < size and brought:
            parts[name] = brought
    positions = [at for steps in parts.values() for step in steps for at in step]
    assert len(set(positions)) == len(positions) == size
    return {name: steps for name, steps in parts.items() if steps}


def rounds_of(recipe: Recipe, diary: Diary) -> Iterator[dict[str, list[list[int]]]]:
    """Yield, for each round, the samples of every local step of each worker."""
    rounds = -(-len(recipe.dataset) // recipe.batch)
    for round_ in range(recipe.steps):
        epoch, at = divmod(round_, rounds)
        size = min(recipe.batch, len(recipe.dataset) - at * recipe.batch)
        order = epoch_order(len(recipe.dataset), 0, epoch, True).tolist()
        parts = committed(diary, round_, size)
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


def replay(recipe: Recipe, options: LocalSGD, diary: Diary) -> Tensor:
    """Return the parameters after all rounds of a diary; every worker's optimizer goes on through all its rounds."""
    model, _, _ = recipe.parts()
    merged = [parameter.detach().clone() for parameter in model.parameters()]
    velocity = [torch.zeros_like(each) for each in merged]
    own: dict[str, tuple[torch.nn.Module, torch.optim.Optimizer]] = {}
    for parts in rounds_of(recipe, diary):
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
        diary.follow(session, me)
        for _ in session.epochs(recipe.epochs):
            for x, y in session.batches(recipe.dataset):
                on_batch(session, me)
                diary.note(session, me)
                session.step(partial(loss_of, model), x, y)
        return flat(model)

    return script
