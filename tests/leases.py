"""A Lease in memory, and replicas of the operator that want it, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from omnilearn_operator.api import ApiError, Manifest
from omnilearn_operator.candidate import Candidate, lease_of
from omnilearn_operator.leadership import Lease, Timing
from operations import MemoryApi

NAME = "omnilearn-operator"
_LIMIT = 20.0


class LeaseApi(MemoryApi):
    """An API in memory that counts versions, and refuses changes by those who have not seen the last one."""

    def __init__(self) -> None:
        super().__init__()
        self.away = False

    @property
    def lease(self) -> Lease:
        return lease_of(self.objects["Lease", NAME])

    async def get(self, kind: str, namespace: str, name: str, version: str = "") -> Manifest:
        self._reach()
        return await super().get(kind, namespace, name, version)

    async def create(self, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        self._reach()
        await super().create(manifest, dry_run=dry_run)
        return self._counted(manifest["kind"], manifest["metadata"]["name"])

    async def patch(self, kind: str, namespace: str, name: str, body: Manifest, *, status: bool = False) -> Manifest:
        self._reach()
        seen = body["metadata"].get("resourceVersion")
        if (kind, name) in self.objects and seen not in (
            None,
            self.objects[kind, name]["metadata"].get("resourceVersion"),
        ):
            raise ApiError(409, "Conflict", "the object has been modified")
        await super().patch(kind, namespace, name, body, status=status)
        return self._counted(kind, name)

    def _reach(self) -> None:
        if self.away:
            raise ApiError(0, "Unreachable", "the API server cannot be reached")

    def _counted(self, kind: str, name: str) -> Manifest:
        found = self.objects[kind, name]
        found["metadata"]["resourceVersion"] = str(int(found["metadata"].get("resourceVersion", 0)) + 1)
        return dict(found)


class Clock:
    """A clock that tests can put forward."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return asyncio.get_running_loop().time() + self.ahead


def candidate(api: LeaseApi, me: str, clock: Clock | None = None) -> Candidate:
    return Candidate(api, "system", NAME, me, Timing(1.0), clock or Clock())


def run(scene: Callable[[LeaseApi], Coroutine[Any, Any, None]]) -> LeaseApi:
    async def play() -> LeaseApi:
        api = LeaseApi()
        async with asyncio.timeout(_LIMIT):
            await scene(api)
        return api

    return asyncio.run(play())


async def until(true: Callable[[], bool]) -> None:
    while not true():  # noqa: ASYNC110 - anything may make it true
        await asyncio.sleep(0.01)
