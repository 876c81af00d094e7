"""A control law and the workers it steers, window by window. For tests only: no waiting, no clock but its own."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from omnilearn_core.control.law import Decision, Law, State, decide
from omnilearn_core.control.reports import Member, Report, Situation
from omnilearn_core.control.shares import Slot, balance, makespan

WINDOW_SECONDS = 10.0

Seconds = Callable[[int], float]
"""Step time of a worker as a function of its share."""


def line(fixed: float, per_sample: float) -> Seconds:
    """Return the step time of a worker that is a line."""
    return lambda share: fixed + per_sample * share


@dataclass
class Loop:
    """Workers that report what their step times are, and the law that answers with shares."""

    law: Law[Any]
    global_batch: int
    seconds: dict[str, Seconds]
    members: tuple[Member, ...]
    noise: float = 0.0
    seed: int = 0
    epoch_windows: int = 1
    window: int = 0
    state: State[Any] | None = None
    decision: Decision[Any] = field(init=False)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.decide(())

    @property
    def plan(self) -> dict[str, int]:
        """The shares in force."""
        return self.decision.shares

    @property
    def now(self) -> float:
        """The clock of the coordinator: every window takes as long."""
        return self.window * WINDOW_SECONDS

    @property
    def step(self) -> float:
        """True step time of the plan in force, without noise."""
        return max(self.seconds[worker](share) for worker, share in self.plan.items() if share)

    def measure(self) -> tuple[Report, ...]:
        """Return what the workers would report of the plan in force if a window ended now."""
        return tuple(
            Report(m.worker, share, self.seconds[m.worker](share) * self._factor(), self.now, m.quota)
            for m in self.members
            if (share := self.plan.get(m.worker, 0))
        )

    def decide(self, reports: Iterable[Report]) -> Decision[Any]:
        """Let the law decide on the reports, now."""
        epoch = self.window // self.epoch_windows
        situation = Situation(self.global_batch, self.members, self.now, tuple(reports), epoch)
        self.decision = decide(self.law, self.state, situation)
        self.state = self.decision.state
        return self.decision

    def tick(self) -> Decision[Any]:
        """Let one window pass."""
        self.window += 1
        return self.decide(self.measure())

    def run(self, windows: int) -> list[dict[str, int]]:
        """Let windows pass; return the plan after each of them."""
        return [self.tick().shares for _ in range(windows)]

    def with_members(self, members: Iterable[Member]) -> Decision[Any]:
        """Change the members, or their bounds or quotas, and decide without a new report."""
        self.members = tuple(members)
        return self.decide(())

    def _factor(self) -> float:
        return math.exp(self.chance.gauss(0.0, self.noise)) if self.noise else 1.0


def members(count: int, minimum: int = 1, maximum: int | None = None) -> tuple[Member, ...]:
    """Return members w0, w1, …, each a group of its own, without anything known of them."""
    return tuple(Member(f"w{k}", f"g{k}", minimum=minimum, maximum=maximum) for k in range(count))


def lines(law: Law[Any], global_batch: int, slots: Sequence[Slot], **options: Any) -> Loop:
    """Return a loop whose workers are the lines of ``slots``, with their bounds."""
    named = {f"w{k}": line(slot.fixed, slot.per_sample) for k, slot in enumerate(slots)}
    people = tuple(Member(f"w{k}", f"g{k}", minimum=s.minimum, maximum=s.maximum) for k, s in enumerate(slots))
    return Loop(law, global_batch, named, people, **options)


def optimum(global_batch: int, slots: Sequence[Slot]) -> float:
    """Return the shortest step that whole shares allow."""
    return makespan(balance(global_batch, slots), slots)


def best_by_search(global_batch: int, seconds: Mapping[str, Seconds], smallest: int = 1) -> float:
    """Return the shortest step for workers whose times only ever grow with their shares, by bisection."""
    low, high = 0.0, max(worker(global_batch) for worker in seconds.values())
    for _ in range(60):
        middle = (low + high) / 2
        fits = sum(max(_most(worker, middle, global_batch), smallest) for worker in seconds.values())
        low, high = (low, middle) if fits >= global_batch else (middle, high)
    return max(high, *(worker(smallest) for worker in seconds.values() if smallest))


def _most(worker: Seconds, time: float, global_batch: int) -> int:
    low, high = 0, global_batch
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if worker(middle) <= time else (low, middle - 1)
    return low


def renamed(member: Member, **changes: Any) -> Member:
    """Return the member with other fields."""
    return replace(member, **changes)
