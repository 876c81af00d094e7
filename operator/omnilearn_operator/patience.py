"""Waiting for what others may have to prepare: a CRD, a certificate, the API server."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Awaitable, Callable

from .api import ApiError
from .certificates import CertificateError

logger = logging.getLogger(__name__)

_PATIENCE_SECONDS = 300.0
_ASK_AGAIN_SECONDS = 2.0


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
