"""The operator as a whole: what it consists of, how it starts and how it ends."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import kopf

from omnilearn_coordinator.membership.actions import Happening
from omnilearn_core.api import names

from .api import ApiError
from .certificates import CertificateError, Keeper, ServerTls
from .client import Client
from .coordination import Coordinators
from .credentials import Reviews
from .executor import Executor
from .handlers import handlers_of, watch_settings
from .loop import Loop
from .manifests.place import Place
from .metrics import OperatorMetrics
from .recorder import Recorder
from .registry import Key, Registry
from .secret import OwnSecret
from .serving import Servers, health_app, metrics_app
from .settings import OperatorSettings

logger = logging.getLogger(__name__)

_PATIENCE_SECONDS = 300.0
_ASK_AGAIN_SECONDS = 2.0


class StartError(RuntimeError):
    """The operator cannot start; the sentence says why."""


class Operator:
    """All parts of an operator, put together."""

    def __init__(self, settings: OperatorSettings, api: Client) -> None:
        self._settings, self._api = settings, api
        self._tls = ServerTls()
        self._authorities = ""
        self._keeper = Keeper(
            OwnSecret(api, settings.own_namespace),
            settings.certificate_secret,
            settings.certificate_mode,
            settings.dns_names,
        )
        self._registry = Registry()
        self._recorder = Recorder(api)
        self._coordinators = Coordinators(self._registry, Reviews(api), self._tell)
        executor = Executor(api, self._registry, self._recorder, self._place)
        self._loop = Loop(api, self._registry, self._coordinators, executor, self._recorder, lambda: self._authorities)
        self._metrics = OperatorMetrics(self._registry, self._coordinators.views, lambda: self._loop.retries)

    async def run(self) -> None:
        """Serve and watch until something ends it: kopf takes the signals."""
        settings = self._settings
        async with AsyncExitStack() as stack:
            servers = Servers()
            stack.push_async_callback(servers.close)
            stack.push_async_callback(self._coordinators.stop_all)
            await servers.serve(health_app(lambda: self._loop.looked, self._missing), settings.health_port)
            await servers.serve(metrics_app(self._metrics.text), settings.metrics_port)
            await self._patiently(self._find_crd)
            await self._patiently(self._renew)
            await self._patiently(lambda: self._loop.see_everything(settings.namespaces))
            await servers.serve(self._coordinators.app(), settings.coordinator_port, self._tls.context)
            async with asyncio.TaskGroup() as tasks:
                background = [tasks.create_task(self._loop.run()), tasks.create_task(self._keep_renewing())]
                background.append(tasks.create_task(self._recorder.run()))
                await kopf.operator(
                    registry=handlers_of(self._registry, self._loop),
                    settings=watch_settings(),
                    namespaces=settings.namespaces,
                    clusterwide=not settings.namespaces,
                    standalone=True,
                )
                for each in background:
                    each.cancel()

    def _tell(self, key: Key, happening: Happening) -> None:
        self._loop.tell(key, happening)

    def _missing(self) -> str:
        return "" if self._authorities else "a certificate"

    def _place(self, namespace: str) -> Place:
        address = self._settings.coordinator_address(namespace)
        return Place(address, self._authorities, restricted=self._settings.restrict_pods)

    async def _patiently(self, do: Callable[[], Awaitable[None]]) -> None:
        """Do something that others may have to prepare: a CRD, a certificate. Alive meanwhile, but not ready."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                return await do()
            except (ApiError, CertificateError, StartError, TimeoutError, ssl.SSLError) as error:
                if time.monotonic() > until:
                    raise StartError(f"{error} (waited {_PATIENCE_SECONDS:g} s)") from error
                logger.warning("waiting: %s", error)
            self._loop.looked = time.monotonic()
            await asyncio.sleep(_ASK_AGAIN_SECONDS)

    async def _find_crd(self) -> None:
        """Make sure that the CRD is served: kopf would never hear of one that comes after it has started."""
        if names.PLURAL not in await self._api.resources(names.API_VERSION):
            raise StartError(f"the CRD {names.CRD_NAME} is not there: install it, it comes with the chart")

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
