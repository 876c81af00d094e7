"""What is simulated: workers with speed, fixed cost, noise and memory, and what happens to them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from omnilearn_core.control.reports import Member
from omnilearn_core.control.shares import Slot


@dataclass(frozen=True, slots=True)
class SimulatedWorker:
    """A worker: ``share / speed`` seconds of compute, and a fixed cost for every piece that fits into memory."""

    name: str
    speed: float  # samples per second
    fixed_seconds: float = 0.0  # that do not depend on the speed: latency of a device, a disk
    fixed_samples: float = 0.0  # that do: interpreter, kernel launches on a limited CPU
    noise: float = 0.0  # relative, of the mean of one control window
    memory_samples: int | None = None  # that fit at once; a larger share is computed in pieces
    group: str = ""
    device: str = "cpu"
    minimum: int = 1
    maximum: int | None = None
    capacity: float | None = None  # declared in the manifest
    quota: float | None = None  # CPUs, if the law is told

    def seconds(self, share: int) -> float:
        """Return the step time without noise."""
        if not share:
            return 0.0
        pieces = ceil(share / self.memory_samples) if self.memory_samples else 1
        return pieces * self.fixed + share / self.speed

    @property
    def fixed(self) -> float:
        """Seconds that a step takes before its first sample."""
        return self.fixed_seconds + self.fixed_samples / self.speed

    def slot(self, global_batch: int) -> Slot:
        """Return the truth as the oracle knows it (as if everything fitted into memory)."""
        most = global_batch if self.maximum is None else min(self.maximum, global_batch)
        return Slot(self.fixed, 1.0 / self.speed, self.minimum, most)

    def member(self) -> Member:
        """Return what a law may know beforehand."""
        return Member(self.name, self.group, self.device, self.minimum, self.maximum, self.capacity, self.quota)

    def at_speed(self, factor: float, told: bool) -> SimulatedWorker:
        """Return the worker at ``factor`` times its speed, because of a new CPU quota if the law is told."""
        quota = self.quota * factor if told and self.quota is not None else self.quota
        return replace(self, speed=self.speed * factor, quota=quota)


@dataclass(frozen=True, slots=True)
class When:
    """A point of the run: a step, or seconds since its start."""

    step: int | None = None
    seconds: float | None = None

    def is_due(self, step: int, seconds: float) -> bool:
        """Tell whether the run has come to this point."""
        by_step = self.step is not None and step >= self.step
        return by_step or (self.seconds is not None and seconds >= self.seconds)


@dataclass(frozen=True, slots=True)
class SpeedChange:
    """A worker becomes ``factor`` times as fast as it is; ``told``: by a new CPU quota that the law sees."""

    when: When
    worker: str
    factor: float
    told: bool = False


@dataclass(frozen=True, slots=True)
class Joins:
    """A worker joins."""

    when: When
    worker: SimulatedWorker


@dataclass(frozen=True, slots=True)
class Leaves:
    """A worker is lost."""

    when: When
    worker: str


Event = SpeedChange | Joins | Leaves


@dataclass(frozen=True, slots=True)
class Scenario:
    """A run to simulate."""

    global_batch: int
    workers: tuple[SimulatedWorker, ...]
    steps: int
    events: tuple[Event, ...] = ()
    reduction_seconds: float = 0.0  # of every step, after the slowest worker
    window_steps: int = 3  # a control window is at least so many steps …
    window_seconds: float = 1.0  # … and at least so long
    steps_per_epoch: int = 100
    seed: int = 0


def apply(workers: dict[str, SimulatedWorker], event: Event) -> str:
    """Let an event happen; return it in words."""
    match event:
        case SpeedChange(_, name, factor, told):
            if name in workers:
                workers[name] = workers[name].at_speed(factor, told)
            return f"{name} {'gets' if told else 'runs at'} {factor:.0%} of its {'CPUs' if told else 'speed'}"
        case Joins(_, worker):
            workers[worker.name] = worker
            return f"{worker.name} joins"
        case Leaves(_, name):
            workers.pop(name, None)
            return f"{name} is lost"
