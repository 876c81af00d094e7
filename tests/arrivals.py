"""Asynchronous training written down plainly: one process replays, arrival by arrival, what a server noted."""

from __future__ import annotations

import copy
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import SGD, Optimizer

from crew import Script, Worker
from omnilearn_core.api.strategy import Asynchronous, Staleness
from omnilearn_runtime import Session
from omnilearn_runtime.asynchronous.engine import AsynchronousRounds
from omnilearn_runtime.asynchronous.server import Server
from omnilearn_runtime.ledger import epoch_order
from omnilearn_runtime.link import RefusedError
from plain import Recipe, backward, flat, loss_of, samples

BATCH = 8


def gently(parameters: Iterable[Parameter]) -> Optimizer:
    """Return an optimizer with some momentum, which old gradients do not make diverge."""
    return SGD(parameters, lr=0.02, momentum=0.5)


RECIPE = Recipe(dataset=samples(400), optimizer=gently, epochs=2, batch=BATCH)
SHORT = Recipe(dataset=samples(90), optimizer=gently, epochs=2, batch=BATCH)

Event = tuple[Any, ...]


@dataclass
class Journal:
    """What all servers of a job noted, one after the other."""

    events: list[Event] = field(default_factory=list)

    def listen(self, session: Session) -> None:
        rounds = session._rounds
        assert isinstance(rounds, AsynchronousRounds)
        rounds.host.on_server = self._began

    def _began(self, server: Server) -> None:
        # Whatever a server that is lost still notes belongs to nobody.
        mine = self.events = [*self.events, ("began", server.pass_, server.base, server._policy.members)]
        server.on_event = lambda *event: mine.append(event)

    def fates(self, worker: str) -> list[tuple[str, int]]:
        return [(e[0], e[2]) for e in self.events if e[0] in ("applied", "discarded") and e[1] == worker]


@dataclass
class Replay:
    """The model of one process, and the gradients that are on their way to it."""

    recipe: Recipe
    options: Asynchronous
    members: int = 1

    def __post_init__(self) -> None:
        self.model, self.optimizer, _ = self.recipe.parts()
        self.round = self.version = 0
        self.kept: dict[int, Any] = {0: self._state()}
        self.delays: dict[str, list[int]] = defaultdict(list)
        """Of the gradients that were used, by worker: updates since their parameters were handed out."""

        self._restart()

    def _restart(self) -> None:
        self.handed: dict[str, tuple[list[Tensor], list[int], int]] = {}
        self.parked: dict[str, tuple[list[Tensor], int, int]] = {}
        self.sums: list[tuple[list[Tensor], int]] = []
        self.now: dict[str, list[tuple[list[Tensor], int]]] = defaultdict(list)
        self.later: dict[str, list[tuple[list[Tensor], int]]] = defaultdict(list)
        self.alive: set[str] = set()
        self.to_come: set[str] | None = None

    def _state(self) -> Any:
        return copy.deepcopy((self.model.state_dict(), self.optimizer.state_dict()))

    def play(self, events: list[Event]) -> Tensor:
        for event in events:
            getattr(self, event[0])(*event[1:])
        return flat(self.model)

    def began(self, pass_: int, round_: int, members: int) -> None:
        model, optimizer = copy.deepcopy(self.kept[round_])
        self.model.load_state_dict(model)
        self.optimizer.load_state_dict(optimizer)
        self.round, self.members = round_, members
        self.order = epoch_order(len(self.recipe.dataset), 0, pass_, True).tolist()
        self._restart()

    def issued(self, worker: str, samples: list[list[int]]) -> None:
        positions = [self.order[at] for low, high in samples for at in range(low, high)]
        self.alive.add(worker)
        self.handed[worker] = ([p.detach().clone() for p in self.model.parameters()], positions, self.version)

    def _gradient(self, worker: str) -> tuple[list[Tensor], int, int]:
        values, positions, start = self.handed.pop(worker)
        model, _, _ = self.recipe.parts()
        with torch.no_grad():
            for parameter, value in zip(model.parameters(), values, strict=True):
                parameter.copy_(value)
        x, y = (torch.stack(each) for each in zip(*(self.recipe.dataset[i] for i in positions), strict=True))
        backward(loss_of(model, x, y))
        return [p.grad for p in model.parameters() if p.grad is not None], len(positions), start

    def _update(self, gradient: list[Tensor], rate: float = 1.0) -> None:
        for parameter, each in zip(self.model.parameters(), gradient, strict=True):
            parameter.grad = each
        for group in self.optimizer.param_groups:
            group["lr"] *= rate
        self.optimizer.step()
        for group in self.optimizer.param_groups:
            group["lr"] /= rate
        self.version, self.round = self.version + 1, self.round + 1
        self.kept[self.round] = self._state()

    def arrived(self, worker: str) -> None:  # noqa: C901 - one branch for each algorithm
        gradient, weight, start = self._gradient(worker)
        delay, bound = self.version - start, self.options.bound or self.members
        if self._uses(delay, bound):
            self.delays[worker].append(delay)
        match self.options.staleness:
            case Staleness.UNBOUNDED:
                self._update(gradient)
            case Staleness.DELAY_ADAPTIVE:
                self._update(gradient, self.members / max(self.members, delay))
            case Staleness.BOUNDED:
                self.parked[worker] = (gradient, weight, start)
            case Staleness.RINGMASTER:
                if delay < bound:
                    self._update(gradient)
            case Staleness.RENNALA:
                if delay == 0:
                    self.sums.append((gradient, weight))
                if len(self.sums) == bound:
                    self.flushed()
            case Staleness.RINGLEADER:
                self._ringleader(worker, gradient, weight)

    def _uses(self, delay: int, bound: int) -> bool:
        """Tell whether a gradient is used as soon as it has arrived."""
        match self.options.staleness:
            case Staleness.BOUNDED:
                return False
            case Staleness.RINGMASTER:
                return delay < bound
            case Staleness.RENNALA:
                return delay == 0
            case _:
                return True

    def applied(self, worker: str, delay: int) -> None:
        if self.options.staleness is Staleness.BOUNDED:
            gradient, _, start = self.parked.pop(worker)
            assert delay == self.version - start
            self.delays[worker].append(delay)
            self._update(gradient)

    def discarded(self, worker: str, delay: int) -> None:
        assert delay > 0
        self.parked.pop(worker, None)

    def _ringleader(self, worker: str, gradient: list[Tensor], weight: int) -> None:
        if self.to_come is None:
            self.now[worker].append((gradient, weight))
            if self.alive <= set(self.now):  # all who have begun: somebody may come late
                self._update(mean_of_means(self.now))
                self.to_come = self.alive - {worker}
        elif worker in self.to_come:
            self.now[worker].append((gradient, weight))
            self._update(mean_of_means(self.now))
            self.to_come.discard(worker)
        else:
            self.later[worker].append((gradient, weight))
        if self.to_come is not None and not self.to_come:
            self.now, self.later, self.to_come = self.later, defaultdict(list), None

    def flushed(self) -> None:
        """Use what no update has used, at the end of a pass."""
        if self.sums:
            self._update(mean(self.sums))
            self.sums = []
        left = self.now if self.to_come is None else self.later
        if left:
            self._update(mean_of_means(left))
        self.now, self.later, self.to_come = defaultdict(list), defaultdict(list), None

    def met(self) -> None:
        """All have met, which is a round of its own."""
        self.round += 1
        self.kept[self.round] = self._state()


def mean(parts: list[tuple[list[Tensor], int]]) -> list[Tensor]:
    total = sum(weight for _, weight in parts)
    return [
        sum((g[i] * weight for g, weight in parts), torch.zeros_like(parts[0][0][i])) / total
        for i in range(len(parts[0][0]))
    ]


def mean_of_means(table: dict[str, list[tuple[list[Tensor], int]]]) -> list[Tensor]:
    return mean([(mean(parts), 1) for parts in table.values()])


def as_asynchronous_script(
    recipe: Recipe, journal: Journal, on_batch: Callable[[Session, Worker], object] = lambda *_: None
) -> Script:
    """Return the training as a script whose servers keep the journal."""

    def script(session: Session, me: Worker) -> Tensor:
        model, optimizer, _ = recipe.parts()
        session.manage(model, optimizer)
        journal.listen(session)
        for _ in session.epochs(recipe.epochs):
            for x, y in session.batches(recipe.dataset):
                on_batch(session, me)
                session.step(loss_of(model, x, y))
        return flat(model)

    return script


def check(workers: list[Worker], recipe: Recipe = RECIPE) -> Tensor:
    finished = [worker for worker in workers if worker.error is None]
    assert not [each.error for each in workers if not isinstance(each.error, SystemExit | RefusedError | None)]
    assert finished
    for worker in finished:
        assert worker.session is not None
        progress = worker.session._rounds.progress
        assert progress.samples == recipe.epochs * len(recipe.dataset)
        assert (progress.lost, progress.doubled, progress.skipped) == (0, 0, 0)
        assert torch.equal(worker.value, finished[0].value)
    value: Tensor = finished[0].value
    return value


class Unlike:
    """Workers that are not equally fast."""

    def __init__(self, seed: int = 0) -> None:
        self._random, self._lock = random.Random(seed), threading.Lock()

    def __call__(self, _: Session, me: Worker) -> None:
        with self._lock:
            pause = self._random.choice([0.0, 0.001, 0.003]) * (int(me.name[-1]) + 1)
        time.sleep(pause)
