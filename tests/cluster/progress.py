"""Telling people what is being done, and how long it took."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SIGN_OF_LIFE_SECONDS = 30.0


def _to_standard_error(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


class Progress:
    """Writes one line per step, with its time; a long step also says so before, and that it is still at it."""

    def __init__(
        self, write: Callable[[str], None] = _to_standard_error, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._write, self._clock = write, clock
        self._begun = clock()

    def say(self, text: str) -> None:
        """Write a line."""
        self._write(f"cluster: {text}")

    @contextmanager
    def step(self, what: str, expected: str = "") -> Iterator[None]:
        """Time a step; ``expected`` is how long a long one usually takes."""
        begun = self._clock()
        ended = threading.Event()
        if expected:
            self.say(f"          {what} ({expected})")
            threading.Thread(target=self._signs_of_life, args=(what, begun, ended), daemon=True).start()
        try:
            yield
        finally:
            ended.set()
        self.say(f"{self._clock() - begun:7.1f} s {what}")

    def total(self) -> float:
        """Return the seconds since the beginning."""
        return self._clock() - self._begun

    def _signs_of_life(self, what: str, begun: float, ended: threading.Event) -> None:
        while not ended.wait(_SIGN_OF_LIFE_SECONDS):
            self.say(f"          still {what}: {self._clock() - begun:.0f} s")
