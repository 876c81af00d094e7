"""How long a worker computes, loads, reduces and waits: per round, and in windows for its reports."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
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


class Stopwatch:
    """Attributes the time since the last mark to a phase; used by the training thread only."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._mark = self._lap_begun = clock()
        self._spent = dict.fromkeys(Phase, 0.0)
        self.exposed = 0.0
        """Exposed seconds of the last round."""

    def mark(self, phase: Phase) -> None:
        """Everything since the last mark was ``phase``."""
        now = self._clock()
        self._spent[phase] += now - self._mark
        self._mark = now

    def lap(self, least_exposed: float) -> Lap:
        """End a round. Whoever was exposed the least, last time, only reduced: what others have more, they waited."""
        now = self._clock()
        spent, self._spent = self._spent, dict.fromkeys(Phase, 0.0)
        begun, self._lap_begun, self._mark = self._lap_begun, now, now
        self.exposed = spent[Phase.EXPOSED]
        reduce = min(self.exposed, least_exposed) if least_exposed > 0 else self.exposed
        return Lap(now - begun, spent[Phase.COMPUTE], spent[Phase.LOAD], reduce, self.exposed - reduce)


@dataclass(frozen=True, slots=True)
class Window:
    """Laps of rounds with the same share, added up."""

    plan: int = -1
    share: int = 0
    steps: int = 0
    total: Lap = Lap()
    loss: float | None = None


class Windows:
    """The window that is open, between the training thread and the reporting one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = Window()

    def add(self, plan: int, share: int, lap: Lap, loss: float) -> None:
        """Add a round that went undisturbed; another share begins another window."""
        with self._lock:
            window = self._open
            if (window.plan, window.share) != (plan, share):
                window = Window(plan, share)
            total = Lap(
                *(
                    getattr(window.total, name) + getattr(lap, name)
                    for name in ("step", "compute", "load", "reduce", "wait")
                )
            )
            self._open = replace(window, steps=window.steps + 1, total=total, loss=loss)

    def take(self, fewest: int) -> Window | None:
        """Return the window and begin another, if it has at least ``fewest`` rounds."""
        with self._lock:
            window = self._open
            if window.steps < fewest:
                return None
            self._open = Window(window.plan, window.share)
            return window
