"""Virtual time: an event loop that never waits. When nobody has anything to do, it is at once the next moment."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, tzinfo
from types import SimpleNamespace
from typing import Any
from unittest import mock

from operations import CREATED


class StuckError(RuntimeError):
    """Everybody waits, and nothing will ever happen."""


class _Selector(selectors.SelectSelector):
    """Moves the clock on instead of waiting."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise StuckError("nobody has anything to do any more")
        self._clock.seconds += max(0.0, timeout)
        return []


class Clock:
    """What time it is."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @property
    def now(self) -> datetime:
        return CREATED + timedelta(seconds=self.seconds)

    def text(self, skew: float = 0.0) -> str:
        """Return the time as Kubernetes writes it, by a clock that is wrong by so many seconds."""
        return (self.now + timedelta(seconds=skew)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return an event loop that goes by this clock."""
        made = asyncio.SelectorEventLoop(_Selector(self))
        made.time = lambda: self.seconds  # type: ignore[method-assign]
        return made

    @contextmanager
    def rules(self, module: str) -> Iterator[None]:
        """Have a module ask this clock for the time."""
        clock = self

        class Virtual(datetime):
            @classmethod
            def now(cls, tz: tzinfo | None = None) -> Any:
                return clock.now

        def epoch() -> float:
            return self.now.timestamp()

        times = SimpleNamespace(monotonic=lambda: self.seconds, time=epoch)
        with mock.patch.multiple(module, time=times, datetime=Virtual):
            yield
