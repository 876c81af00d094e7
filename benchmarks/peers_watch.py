"""The benchmark's side of the comparison with peers: finished steps as they come, and the figures taken from them."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Self


@dataclass(frozen=True, slots=True)
class Step:
    """A step that one worker has finished."""

    number: int
    world: int
    slot: int
    pid: int
    at: float
    """By the machine's monotonic clock, which all processes share."""


def advances(steps: Sequence[Step]) -> list[Step]:
    """Return the steps that went further than all before them: repeated work is no advance."""
    furthest, found = 0, []
    for step in sorted(steps, key=lambda step: step.at):
        if step.number > furthest:
            furthest = step.number
            found.append(step)
    return found


def longest_pause(steps: Sequence[Step], begin: float, end: float) -> float:
    """Return the longest time without an advance that ended between two moments."""
    times = [step.at for step in advances(steps)]
    return max(later - earlier for earlier, later in pairwise(times) if begin <= later <= end)


def recovery(steps: Sequence[Step], killed: float, fresh: Callable[[Step], bool]) -> float:
    """Return the time from a kill to the first advance of those who went on; what was under way does not count."""
    return next(step.at for step in advances(steps) if step.at > killed and fresh(step)) - killed


def usual_step(steps: Sequence[Step]) -> float:
    """Return the median time between advances."""
    times = [later.at - earlier.at for earlier, later in pairwise(advances(steps))]
    return median(times) if times else 0.0


class Watch:
    """Hears of every step, in a thread of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._steps: list[Step] = []
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
            last.sendto(b"", str(self.path))
        self._thread.join(5)
        self._socket.close()

    @property
    def steps(self) -> list[Step]:
        """All steps so far."""
        with self._news:
            return list(self._steps)

    def furthest(self) -> int:
        """Return the highest step that anybody has finished."""
        return max((step.number for step in self.steps), default=0)

    def pid_of(self, slot: int) -> int:
        """Return the process that last finished a step in a slot."""
        return next(step.pid for step in reversed(self.steps) if step.slot == slot)

    def standing(self) -> str:
        """Return the last step of every slot, in words."""
        last = {step.slot: step for step in self.steps}
        words = [f"slot {slot} was at {step.number} of {step.world} workers" for slot, step in sorted(last.items())]
        return ", ".join(words) or "no step was finished"

    def wait(self, wanted: Callable[[Step], bool], since: float, seconds: float) -> Step:
        """Return the first wanted step after a moment; raise TimeoutError if none comes."""
        limit, seen = time.monotonic() + seconds, 0
        with self._news:
            while True:
                for step in self._steps[seen:]:
                    if step.at > since and wanted(step):
                        return step
                seen = len(self._steps)
                if not self._news.wait(limit - time.monotonic()):
                    raise TimeoutError(f"no such step within {seconds:.0f} s")

    def _listen(self) -> None:
        while message := self._socket.recv(4096):
            with self._news:
                self._steps.append(Step(**json.loads(message)))
                self._news.notify_all()
