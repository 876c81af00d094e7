"""How late the event loop is: whoever waits for it, a worker for its reply or a look for its answer, waits so long."""

from __future__ import annotations

import asyncio
import time
from collections import deque

_PAUSE_SECONDS = 0.25
_KEPT = 60


class Lag:
    """Asks to be woken again and again, and notes how late that happens."""

    def __init__(self) -> None:
        self._late: deque[float] = deque(maxlen=_KEPT)

    @property
    def worst(self) -> float:
        """The longest delay of about the last quarter of a minute, in seconds."""
        return max(self._late, default=0.0)

    async def run(self) -> None:
        """Watch for ever."""
        while True:
            due = time.monotonic() + _PAUSE_SECONDS
            await asyncio.sleep(_PAUSE_SECONDS)
            self._late.append(time.monotonic() - due)
