"""Run a scenario under a controller, control window by control window."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, exp
from typing import Any, Protocol

from omnilearn_core.control.law import Law, State, decide
from omnilearn_core.control.reports import Report, Situation
from omnilearn_core.control.shares import ImpossibleSplitError, Slot, balance, makespan

from .cluster import Event, Scenario, SimulatedWorker, apply


class Controller(Protocol):
    """Whoever decides the shares. Only the oracle looks at the truth."""

    def split(self, situation: Situation, truth: Sequence[Slot]) -> tuple[dict[str, int], str]:
        """Return the shares for the next window, and why."""
        ...


@dataclass(slots=True)
class LawController:
    """A control law with its state."""

    law: Law[Any]
    state: State[Any] | None = None

    def split(self, situation: Situation, truth: Sequence[Slot]) -> tuple[dict[str, int], str]:
        """Ask the law."""
        decision = decide(self.law, self.state, situation)
        self.state = decision.state
        return decision.shares, decision.why


@dataclass(frozen=True, slots=True)
class Oracle:
    """The best split there is, from the true speeds."""

    def split(self, situation: Situation, truth: Sequence[Slot]) -> tuple[dict[str, int], str]:
        """Solve with the truth."""
        shares = balance(situation.global_batch, truth)
        return {m.worker: b for m, b in zip(situation.members, shares, strict=True)}, "the true speeds"


@dataclass(frozen=True, slots=True)
class Window:
    """One control window as it went."""

    first_step: int
    steps: int
    began: float
    shares: Mapping[str, int]
    seconds: Mapping[str, float]  # mean compute time of a step, by worker
    step_seconds: float  # as it went, with noise and reduction
    expected_seconds: float  # of one global batch with these shares, without noise
    oracle_seconds: float  # of one global batch with the best shares, without noise
    why: str
    events: tuple[str, ...] = ()

    @property
    def waiting(self) -> float:
        """Share of the members' time that they spend waiting for the slowest, or for the reduction."""
        busy = sum(self.seconds.values()) / max(len(self.seconds), 1)
        return 1.0 - busy / self.step_seconds


@dataclass(frozen=True, slots=True)
class Trace:
    """A run as it went."""

    scenario: Scenario
    windows: tuple[Window, ...] = field(default=())

    @property
    def seconds(self) -> float:
        """Time of the whole run."""
        last = self.windows[-1]
        return last.began + last.steps * last.step_seconds

    @property
    def samples_per_second(self) -> float:
        """Speed of the whole run."""
        steps = sum(window.steps for window in self.windows)
        return steps * self.scenario.global_batch / self.seconds

    @property
    def waiting(self) -> float:
        """Share of the members' time spent waiting, over the run."""
        total = sum(window.steps * window.step_seconds for window in self.windows)
        return sum(window.waiting * window.steps * window.step_seconds for window in self.windows) / total

    @property
    def changes(self) -> int:
        """How often the shares of the same members changed."""
        pairs = zip(self.windows, self.windows[1:], strict=False)
        return sum(a.shares.keys() == b.shares.keys() and a.shares != b.shares for a, b in pairs)


def simulate(scenario: Scenario, controller: Controller) -> Trace:
    """Run the scenario to its end."""
    rng = random.Random(scenario.seed)  # noqa: S311 - repeatable noise, not secrets
    workers = {worker.name: worker for worker in scenario.workers}
    pending = list(scenario.events)
    windows: list[Window] = []
    reports: tuple[Report, ...] = ()
    step, now = 0, 0.0
    while step < scenario.steps:
        happened = _happen(pending, workers, step, now)
        if not workers:
            raise ImpossibleSplitError(f"all workers are lost at step {step}: nobody is left to go on")
        situation = Situation(
            scenario.global_batch,
            tuple(worker.member() for worker in workers.values()),
            now,
            reports,
            step // scenario.steps_per_epoch,
        )
        window = _window(scenario, controller, situation, workers, rng, step)
        window = replace(window, steps=_steps(window, pending, scenario.steps), events=happened)
        windows.append(window)
        step, now = step + window.steps, now + window.steps * window.step_seconds
        reports = tuple(
            Report(name, window.shares[name], seconds, now, workers[name].quota)
            for name, seconds in window.seconds.items()
            if window.shares[name]
        )
    return Trace(scenario, tuple(windows))


def _happen(pending: list[Event], workers: dict[str, SimulatedWorker], step: int, now: float) -> tuple[str, ...]:
    due = [event for event in pending if event.when.is_due(step, now)]
    for event in due:
        pending.remove(event)
    return tuple(apply(workers, event) for event in due)


def _steps(window: Window, pending: Sequence[Event], last: int) -> int:
    """Return the window's steps, cut short where an event is due or the run ends."""
    steps = min(window.steps, last - window.first_step)
    for event in pending:
        if event.when.step is not None:
            steps = min(steps, event.when.step - window.first_step)
        if event.when.seconds is not None:
            steps = min(steps, ceil((event.when.seconds - window.began) / window.step_seconds))
    return max(steps, 1)


def _window(
    scenario: Scenario,
    controller: Controller,
    situation: Situation,
    workers: Mapping[str, SimulatedWorker],
    rng: random.Random,
    step: int,
) -> Window:
    truth = [worker.slot(scenario.global_batch) for worker in workers.values()]
    shares, why = controller.split(situation, truth)
    exact = {name: worker.seconds(shares[name]) for name, worker in workers.items()}
    seconds = {name: exact[name] * exp(rng.gauss(0.0, workers[name].noise)) for name in workers}
    # A rule that does not keep the sum is judged by the time of one global batch, not of its own.
    scale = scenario.global_batch / sum(shares.values())
    step_seconds = max(seconds.values()) * scale + scenario.reduction_seconds
    best = balance(scenario.global_batch, truth)
    return Window(
        first_step=step,
        steps=max(scenario.window_steps, ceil(scenario.window_seconds / step_seconds)),
        began=situation.now,
        shares=shares,
        seconds=seconds,
        step_seconds=step_seconds,
        expected_seconds=max(exact.values()) * scale + scenario.reduction_seconds,
        oracle_seconds=makespan(best, truth) + scenario.reduction_seconds,
        why=why,
    )
