"""How long a worker computes, loads, reduces and waits: per round, and in windows for its reports."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from enum import StrEnum


class Phase(StrEnum):
    """What the training thread spends its time on."""

    COMPUTE = "compute"
    LOAD = "load"
    EXPOSED = "exposed"
    """Between the end of its own work and the end of the reduction: reducing, and waiting for others."""

    OTHER = "other"
    """Between rounds, and while members change."""


@dataclass(frozen=True, slots=True)
class Lap:
    """The times of one round, in seconds."""

    step: float = 0.0
    compute: float = 0.0
    load: float = 0.0
    reduce: float = 0.0
    wait: float = 0.0
    tail: float = 0.0
    """What part of computing and loading was for the tail, beyond the share."""


class Stopwatch:
    """Attributes the time since the last mark to a phase; used by the training thread only."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._mark = self._lap_begun = clock()
        self._spent = dict.fromkeys(Phase, 0.0)
        self.exposed = 0.0
        """Exposed seconds of the last round."""

        self.in_tail = False
        """True while the time is spent on the tail."""

        self._tail = 0.0

    def mark(self, phase: Phase) -> None:
        """Everything since the last mark was ``phase``."""
        now = self._clock()
        self._spent[phase] += now - self._mark
        self.in_tail = self.in_tail and phase is not Phase.OTHER
        if self.in_tail and phase in (Phase.COMPUTE, Phase.LOAD):
            self._tail += now - self._mark
        self._mark = now

    def restart(self) -> None:
        """Begin a round here: what was done since the last one belongs to none."""
        self._mark = self._lap_begun = self._clock()

    def lap(self, least_exposed: float) -> Lap:
        """End a round. Whoever was exposed the least, last time, only reduced: what others have more, they waited."""
        now = self._clock()
        spent, self._spent = self._spent, dict.fromkeys(Phase, 0.0)
        begun, self._lap_begun, self._mark = self._lap_begun, now, now
        self.exposed = spent[Phase.EXPOSED]
        reduce = min(self.exposed, least_exposed) if least_exposed > 0 else self.exposed
        tail, self._tail, self.in_tail = self._tail, 0.0, False
        return Lap(now - begun, spent[Phase.COMPUTE], spent[Phase.LOAD], reduce, self.exposed - reduce, tail)


@dataclass(frozen=True, slots=True)
class Window:
    """Laps of rounds with the same share, added up."""

    plan: int = -1
    share: int = 0
    steps: int = 0
    tail_samples: int = 0
    total: Lap = Lap()
    loss: float | None = None


class Windows:
    """The window that is open, between the training thread and the reporting one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = Window()

    def add(self, plan: int, share: int, lap: Lap, loss: float, tail_samples: int = 0, steps: int = 1) -> None:
        """Add steps that went undisturbed, with what was computed beyond the share; another share begins another."""
        with self._lock:
            window = self._open
            if (window.plan, window.share) != (plan, share):
                window = Window(plan, share)
            total = Lap(*(getattr(window.total, each.name) + getattr(lap, each.name) for each in fields(Lap)))
            tail_samples += window.tail_samples
            self._open = replace(window, steps=window.steps + steps, tail_samples=tail_samples, total=total, loss=loss)

    def take(self, fewest: int) -> Window | None:
        """Return the window and begin another, if it has at least ``fewest`` rounds."""
        with self._lock:
            window = self._open
            if window.steps < fewest:
                return None
            self._open = Window(window.plan, window.share)
            return window


class Delays:
    """How old the gradients were since the last report, in updates; between the same threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: list[int] = []

    def add(self, delay: int | None) -> None:
        """Note the delay of a gradient, if it has one."""
        if delay is not None:
            with self._lock:
                self._found.append(delay)

    def take(self) -> tuple[float | None, int]:
        """Return the mean, none if there was no gradient, and the largest; begin anew."""
        with self._lock:
            found, self._found = self._found, []
        return (sum(found) / len(found) if found else None), max(found, default=0)
