"""Waiting for a condition, never for ever."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from cluster.errors import FailedError

Condition = Callable[[], bool]


def until(
    condition: Condition,
    what: str,
    seconds: float,
    check: Callable[[], None] = lambda: None,
    every: float = 0.2,
) -> None:
    """Return when the condition holds; raise FailedError after so many seconds, or whatever ``check`` raises."""
    ends = time.monotonic() + seconds
    while not condition():
        check()
        if time.monotonic() > ends:
            raise FailedError(f"{what}: not after {seconds:.0f} s")
        time.sleep(every)


def listens(address: str, port: int) -> bool:
    """Tell whether somebody accepts connections there."""
    try:
        with socket.create_connection((address, port), timeout=1):
            return True
    except OSError:
        return False
