"""Waiting for what others may have to prepare: a CRD, a certificate, the API server."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Awaitable, Callable

from omnilearn_core.endings import back_off

from .api import ApiError
from .certificates import CertificateError

logger = logging.getLogger(__name__)

_PATIENCE_SECONDS = 300.0
_ASK_AGAIN_SECONDS = 2.0
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
# A reign that has lasted so long was a good one.
_GOOD_SECONDS = 60.0


class StartError(RuntimeError):
    """The operator cannot start; the sentence says why."""


async def patiently(do: Callable[[], Awaitable[None]], still_alive: Callable[[], None]) -> None:
    """Do something until it succeeds; StartError with a sentence if it does not for long."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return await do()
        except (ApiError, CertificateError, StartError, TimeoutError, ssl.SSLError) as error:
            if time.monotonic() > until:
                raise StartError(f"{error} (waited {_PATIENCE_SECONDS:g} s)") from error
            logger.warning("waiting: %s", error)
        still_alive()
        await asyncio.sleep(_ASK_AGAIN_SECONDS)


class Setbacks:
    """Reigns that have failed in a row: how long to wait after each, and when it is enough."""

    def __init__(self) -> None:
        self._count, self._since = 0, 0.0

    def pause(self, began: float, now: float) -> float | None:
        """Return how long to wait after a reign that began then and has failed now; None if they fail for long."""
        if not self._count or now - began >= _GOOD_SECONDS:
            self._count, self._since = 0, now
        self._count += 1
        return None if now - self._since > _PATIENCE_SECONDS else back_off(self._count, _FIRST_PAUSE, _LONGEST_PAUSE)
