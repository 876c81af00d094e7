"""An operator that leads: what it consists of, how it starts and how it ends. Made anew for every reign."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable
from contextlib import AsyncExitStack

from omnilearn_coordinator.membership.actions import Happening
from omnilearn_coordinator.reception import Reception

from .api import Api, ApiError
from .certificates import CertificateError, Keeper, ServerTls
from .coordination import Coordinators
from .credentials import Reviews
from .executor import Executor
from .handlers import watch
from .lists import Lists
from .loop import Loop
from .manifests.place import Place
from .metrics import Shown
from .patience import patiently
from .persistence import Persistent
from .recorder import Recorder
from .registry import Key, Registry
from .reign import Fenced, Reign
from .secret import OwnSecret
from .settings import OperatorSettings
from .signpost import Signpost

logger = logging.getLogger(__name__)


class Leader:
    """All parts of an operator that leads, put together. It takes over what runs, as after a crash."""

    def __init__(self, settings: OperatorSettings, api: Api, reign: Reign, take_signals: Callable[[], None]) -> None:
        fenced = Persistent(Fenced(api, reign))
        self._settings, self.reign, self._take_signals = settings, reign, take_signals
        self._tls = ServerTls()
        self._authorities = ""
        self._keeper = Keeper(
            OwnSecret(fenced, settings.own_namespace),
            settings.certificate_secret,
            settings.certificate_mode,
            settings.dns_names,
        )
        self._registry = Registry()
        self._recorder = Recorder(Fenced(api, reign))  # it has a patience of its own
        self._coordinators = Coordinators(self._registry, Reviews(fenced), self._tell, reign)
        executor = Executor(fenced, self._registry, self._recorder, self._place)
        lists = Lists(fenced, self._registry, settings.namespaces)
        self._loop = Loop(
            lists, self._registry, self._coordinators, executor, self._recorder, lambda: self._authorities
        )
        self._signpost = Signpost(fenced, settings.own_namespace, settings.pod, settings.lease)

    @property
    def looked(self) -> float:
        """When its loop last went round."""
        return self._loop.looked

    @property
    def missing(self) -> str:
        """What it waits for before workers may come."""
        return "" if self._authorities else "a certificate"

    @property
    def shown(self) -> Shown:
        """What its metrics show."""
        loop, coordinators, recorder = self._loop, self._coordinators, self._recorder
        return Shown(
            self._registry,
            coordinators.views,
            loop.retries,
            coordinators.refusals.counts,
            loop.looks,
            loop.waiting,
            coordinators.connected,
            coordinators.members,
            coordinators.reports,
            recorder.waiting,
            recorder.dropped,
        )

    async def run(self) -> None:
        """Serve and watch until this is cancelled, or kopf is told to end by a signal."""
        settings = self._settings
        async with AsyncExitStack() as stack:
            reception = Reception(self._coordinators.app(), self._coordinators.refusals.count)
            stack.push_async_callback(reception.close)
            stack.push_async_callback(self.hang_up)
            await patiently(self._renew, self._still_alive)
            await patiently(self._loop.begin, self._still_alive)
            self._coordinators.expect_everybody()
            await reception.start(None, settings.coordinator_port, self._tls.context)
            async with asyncio.TaskGroup() as tasks:
                background = [tasks.create_task(self._loop.run()), tasks.create_task(self._keep_renewing())]
                background.append(tasks.create_task(self._recorder.run()))
                if settings.pod:
                    background.append(tasks.create_task(self._signpost.run()))
                await watch(self._registry, self._loop, settings.namespaces, self._take_signals)
                for each in background:
                    each.cancel()

    async def hang_up(self) -> None:
        """Leave the workers to whoever leads now; they go on training."""
        await self._coordinators.stop_all()

    def _still_alive(self) -> None:
        self._loop.looked = time.monotonic()

    def _tell(self, key: Key, happening: Happening) -> None:
        self._loop.tell(key, happening)

    def _place(self, namespace: str) -> Place:
        address = self._settings.coordinator_address(namespace)
        return Place(address, self._authorities, restricted=self._settings.restrict_pods)

    async def _renew(self) -> None:
        bundle = await self._keeper.refresh()
        self._tls.update(bundle)
        if bundle.authorities != self._authorities:
            self._authorities = bundle.authorities
            for key in self._registry.jobs:
                self._loop.touch(key)

    async def _keep_renewing(self) -> None:
        while True:
            await asyncio.sleep(self._keeper.pause)
            try:
                await self._renew()
            except (ApiError, CertificateError, TimeoutError, ssl.SSLError) as error:
                logger.warning("the certificate was not looked after: %s", error)
