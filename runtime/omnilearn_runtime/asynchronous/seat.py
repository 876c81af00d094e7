"""A worker's place at the server: what it asked for, and the answer that waits for it. Between two threads."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from .frames import Kind
from .layout import Flat

Answer = tuple[Kind, dict[str, Any], list[memoryview]]


@dataclass(eq=False)
class Seat:
    """One connection of a worker. The server's thread answers; the connection's thread waits for that, and sends it."""

    worker: str
    attempt: int
    holds: int
    """The round whose state the worker holds."""

    parameters: Flat | None = None
    """Where the parameters are put that it is answered with."""

    share: int = 0
    built: int = 0
    """The newest generation whose group the worker has built."""

    fate: dict[str, Any] = field(default_factory=dict)
    """What became of its last gradient, to be told with the next answer."""

    _answer: Answer | None = None
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def answer(self, kind: Kind, text: dict[str, Any], body: list[memoryview] | None = None) -> None:
        """Answer what it asked."""
        with self._changed:
            self._answer = (kind, text | self.fate, body or [])
            self.fate = {}
            self._changed.notify_all()

    @property
    def answered(self) -> bool:
        """True if an answer waits to be sent."""
        return self._answer is not None

    def take(self, seconds: float) -> Answer | None:
        """Return the answer, or None if there is none within ``seconds``."""
        with self._changed:
            self._changed.wait_for(lambda: self._answer is not None, seconds)
            answer, self._answer = self._answer, None
            return answer
