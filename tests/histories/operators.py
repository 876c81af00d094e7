"""One operator: the real registry, loop, executor and recorder over the cluster in memory. It may die at any time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

from omnilearn_coordinator.membership.actions import Happening
from omnilearn_core.api import names
from omnilearn_operator.api import ApiError
from omnilearn_operator.coordination import Coordinators
from omnilearn_operator.executor import Executor
from omnilearn_operator.lists import Lists
from omnilearn_operator.loop import Loop
from omnilearn_operator.manifests.place import Place
from omnilearn_operator.observed import Pod
from omnilearn_operator.persistence import Persistent
from omnilearn_operator.recorder import Recorder
from omnilearn_operator.registry import Key, Registry

from .clock import Clock
from .front import Front
from .store import NAMESPACE, Change, Store
from .training import Coordinating, Scripts
from .watching import Watch, Wire

_AUTHORITIES = "ca"


class Noting(Registry):
    """A registry that notes which version of each job's spec it was told of."""

    def __init__(self) -> None:
        super().__init__()
        self.newest: dict[str, int] = {}
        """The newest version by the job's UID."""

    def see_job(self, manifest: Mapping[str, Any], *, gone: bool = False) -> Key:
        metadata = manifest["metadata"]
        self.newest[metadata["uid"]] = max(metadata["generation"], self.newest.get(metadata["uid"], 0))
        return super().see_job(manifest, gone=gone)


class Operator:
    """An operator from its start to its death."""

    def __init__(self, clock: Clock, store: Store, scripts: Scripts, api: Front, wire: Wire) -> None:
        self.registry = Noting()
        self.coordinating = Coordinating(scripts, self._looks, self._tell)
        self.known: dict[str, int] = {}
        """The newest version of each job's spec that it could know when it last looked, by UID."""

        self.saw: dict[str, tuple[Pod, ...]] = {}
        """The pods that it saw then."""

        self._api, self._store, self._wire = api, store, wire
        persistent = Persistent(api)
        self._recorder = Recorder(persistent, lambda: clock.seconds)
        executor = Executor(persistent, self.registry, self._recorder, lambda _: Place("wss://here", _AUTHORITIES))
        coordinators = cast(Coordinators, self.coordinating)
        lists = Lists(persistent, self.registry, [NAMESPACE])
        self.loop = Loop(lists, self.registry, coordinators, executor, self._recorder, lambda: _AUTHORITIES)
        self.watches: list[Watch] = []
        self._tasks = [asyncio.ensure_future(self._run())]

    async def _run(self) -> None:
        while True:
            try:
                await self.loop.begin()
                break
            except ApiError:
                await asyncio.sleep(2.0)
        self.watches = [
            Watch(self._store, names.KIND, self._wire, self._see_job),
            Watch(self._store, "Pod", self._wire, self._see_pod),
        ]
        self._tasks += [asyncio.ensure_future(each) for each in (self.loop.run(), self._recorder.run())]

    def die(self) -> None:
        """Be gone at once; calls that are on their way arrive all the same, within a moment."""
        self._api.dead_since = self._store.clock.seconds
        for watch in self.watches:
            watch.close()
        current = asyncio.all_tasks()
        for task in [*self._tasks, *(each for each in current if each.get_name().startswith("look at "))]:
            task.cancel()

    def _tell(self, key: Key, happening: Happening) -> None:
        self.loop.tell(key, happening)

    def _looks(self, key: Key) -> None:
        job = self.registry.jobs.get(key)
        uid = "" if job is None else job.metadata.uid or ""
        self.known[uid], self.saw[uid] = self.registry.newest.get(uid, 0), self.registry.pods(key)

    def _see_job(self, change: Change) -> None:
        gone = change.type == "DELETED"
        if gone or self.registry.is_news(change.object):
            self.loop.touch(self.registry.see_job(change.object, gone=gone))

    def _see_pod(self, change: Change) -> None:
        gone = change.type == "DELETED"
        if gone or self.registry.is_news(change.object):
            key = self.registry.see_pod(change.object, gone=gone)
            if key is not None:
                self.loop.touch(key)
