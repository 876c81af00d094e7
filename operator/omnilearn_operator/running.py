"""One replica of the operator: it serves metrics and health, and leads while it has the Lease."""

from __future__ import annotations

import asyncio
import logging
import secrets
import signal
import socket
import time
from contextlib import AsyncExitStack

from omnilearn_core.api import names

from .candidate import Candidate
from .client import Client
from .lag import Lag
from .leadership import Timing
from .leading import Leader
from .metrics import OperatorMetrics, Shown
from .patience import StartError, patiently
from .reign import Reign
from .serving import Servers, health_app, metrics_app
from .settings import OperatorSettings

logger = logging.getLogger(__name__)


def identity(settings: OperatorSettings) -> str:
    """Return the name by which a Lease knows this replica: the same for every process of a pod."""
    if settings.pod and settings.pod_uid:
        return f"{settings.pod}_{settings.pod_uid}"
    return f"{socket.gethostname()}_{secrets.token_hex(4)}"


class Operator:
    """A process that leads, or is ready to."""

    def __init__(self, settings: OperatorSettings, api: Client) -> None:
        self._settings, self._api = settings, api
        timing, me = Timing(settings.lease_seconds), identity(settings)
        self._candidate = Candidate(api, settings.own_namespace, settings.lease, me, timing)
        self._leader: Leader | None = None
        self._life: asyncio.Task[None] | None = None
        self._lag = Lag()
        self._metrics = OperatorMetrics(
            self._shown, lambda: self._candidate.reigns, lambda: api.counted.calls, lambda: self._lag.worst
        )

    async def run(self) -> None:
        """Lead whenever it can be, until a signal ends it."""
        self._life = asyncio.current_task()
        self._take_signals()
        async with AsyncExitStack() as stack:
            stack.callback(asyncio.create_task(self._lag.run(), name="watch the loop").cancel)
            servers = Servers()
            stack.push_async_callback(servers.close)
            await servers.serve(health_app(self._looked, self._missing), self._settings.health_port)
            await servers.serve(metrics_app(self._metrics), self._settings.metrics_port)
            await patiently(self._find_crd, self._still_alive)
            while True:
                await self._lead(await self._candidate.take())

    async def _lead(self, reign: Reign) -> None:
        """Lead until the reign is over; whatever ends it, nothing of it is left, and the Lease is free."""
        logger.info("this operator leads: reign %d", reign.number)
        leader = self._leader = Leader(self._settings, self._api, reign, self._take_signals)
        keeping = asyncio.create_task(self._candidate.keep(reign), name="keep the Lease")
        leading = asyncio.create_task(leader.run(), name="lead")
        try:
            await asyncio.wait({leading, keeping}, return_when=asyncio.FIRST_COMPLETED)
            if leading.done():
                leading.result()
                self._end()
            else:
                logger.warning("this operator does not lead any more: %s", keeping.result())
        finally:
            reign.end()
            await leader.hang_up()
            await _cancelled(leading, keeping)
            self._leader = None
            await self._candidate.step_down()
            logger.info("reign %d is over", reign.number)

    def _take_signals(self) -> None:
        """Have signals end this process in good order; kopf takes them whenever it starts."""
        for each in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(each, self._end)

    def _end(self) -> None:
        if self._life is not None:
            self._life.cancel()

    def _looked(self) -> float:
        return self._candidate.looked if self._leader is None else self._leader.looked

    def _still_alive(self) -> None:
        self._candidate.looked = time.monotonic()

    def _missing(self) -> str:
        if self._leader is not None:
            return self._leader.missing
        return "" if self._candidate.informed else "the Lease"

    def _shown(self) -> Shown | None:
        return None if self._leader is None or not self._leader.reign.holds() else self._leader.shown

    async def _find_crd(self) -> None:
        """Make sure that the CRD is served: kopf would never hear of one that comes after it has started."""
        if names.PLURAL not in await self._api.resources(names.API_VERSION):
            raise StartError(f"the CRD {names.CRD_NAME} is not there: install it, it comes with the chart")


async def _cancelled(*tasks: asyncio.Task[None] | asyncio.Task[str]) -> None:
    """Return when these have ended."""
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
