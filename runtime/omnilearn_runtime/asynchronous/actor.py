"""A thread that owns something: others bring calls into its queue, so that what it owns needs no lock."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

_LOOK_SECONDS = 0.1
_END_SECONDS = 60.0

T = TypeVar("T")


class Actor:
    """Runs calls one after the other until it is over; what it must not miss it looks at several times a second."""

    def __init__(self, name: str) -> None:
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._gone = False
        self.error: BaseException | None = None
        """What has ended it, if it was an error: to be raised by the thread to which that matters."""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End it."""
        self._events.put(self._give_up)
        self.join()

    def join(self) -> None:
        """Wait for its end."""
        self._thread.join(_END_SECONDS)

    @property
    def over(self) -> bool:
        """True if nothing is done any more."""
        return self._gone

    def call(self, handler: Callable[..., None], *arguments: Any) -> None:
        """Have the thread call something."""
        self._events.put(lambda: handler(*arguments))

    def fetch(self, function: Callable[[], T]) -> T | None:
        """Return what the thread gets by calling something; None if it ends meanwhile."""
        box: queue.SimpleQueue[T] = queue.SimpleQueue()
        self._events.put(lambda: box.put(function()))
        while True:
            try:
                return box.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                if self.over:
                    return None

    def _run(self) -> None:
        try:
            while not self.over:
                try:
                    event = self._events.get(timeout=_LOOK_SECONDS)
                except queue.Empty:
                    event = _nothing
                self._turn(event)
        except BaseException as error:  # noqa: BLE001 - raised by the thread to which it matters
            self.error, self._gone = error, True
        self._dismiss()

    def _turn(self, event: Callable[[], None]) -> None:
        event()

    def _dismiss(self) -> None:
        """Do what is to be done at the end."""

    def _give_up(self) -> None:
        self._gone = True


def _nothing() -> None:
    pass
