"""The API as one operator meets it: late, away, refusing, or acting and losing the answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from enum import StrEnum

from omnilearn_core.api import names
from omnilearn_operator.api import ApiError, Manifest

from .store import Store

_LIMIT_SECONDS = 20.0
_AFTER_DEATH_SECONDS = 1.0


class Trouble(StrEnum):
    """What becomes of a call."""

    REFUSED = "refused"
    """An error, and nothing was done."""

    LOST = "lost"
    """It was done, but the caller hears of an error."""


@dataclass
class Line:
    """How calls fare now; all well at first."""

    seconds: float = 0.01
    """How long a call takes."""

    away: bool = False
    troubles: dict[str, tuple[Trouble, int, int]] = field(default_factory=dict)
    """By verb: what happens, with which status, how often."""

    spoiled: bool = False
    """A status was not written, or nobody knows whether it was."""

    def next_trouble(self, verb: str) -> tuple[Trouble, ApiError] | None:
        found = self.troubles.get(verb)
        if found is None:
            return None
        trouble, status, left = found
        if left <= 1:
            del self.troubles[verb]
        else:
            self.troubles[verb] = trouble, status, left - 1
        return trouble, ApiError(status, "Trouble", f"the API server answered {status}")


Told = Callable[[str, Manifest], None]
"""Who hears of writes before they are done: the verb and what is written."""


class Front:
    """The calls of one operator."""

    def __init__(self, store: Store, line: Line, told: Told) -> None:
        self._store, self._line, self._told = store, line, told
        self.dead_since: float | None = None
        """When its operator died: an API server drops what nobody waits for, but not at once."""

    async def get(self, kind: str, namespace: str, name: str, version: str = "") -> Manifest:
        return await self._call("get", lambda: deepcopy(self._store.get(kind, name)))

    async def every(self, kind: str, namespace: str, selector: str = "", fields: str = "") -> Manifest:
        def found() -> Manifest:
            version = {"resourceVersion": str(self._store.version)}
            return {"metadata": version, "items": deepcopy(self._store.every(kind, selector))}

        return await self._call("list", found)

    async def pages(self, kind: str, namespace: str, selector: str = "") -> AsyncIterator[Manifest]:
        yield await self.every(kind, namespace, selector)

    async def create(self, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        def create() -> Manifest:
            made = self._store.create(manifest, dry_run=True)
            if not dry_run:
                self._told("create", manifest)
                made = self._store.create(manifest)
            return deepcopy(made)

        kind = manifest["kind"]
        return await self._call("try" if dry_run else "create" if kind == "Pod" else kind, create)

    async def apply(self, manifest: Manifest) -> Manifest:
        return await self._call("apply", lambda: manifest)

    async def patch(self, kind: str, namespace: str, name: str, body: Manifest, *, status: bool = False) -> Manifest:
        def patch() -> Manifest:
            made = deepcopy(self._store.merge(kind, name, body))
            if kind == names.KIND:
                self._told("status", made)
            return made

        return await self._call("status" if status else "patch" if kind == "Pod" else kind, patch)

    async def delete(self, kind: str, namespace: str, name: str, uid: str) -> None:
        def delete() -> Manifest:
            found = self._store.get(kind, name)
            if found["metadata"]["uid"] == uid:
                self._told("delete", found)
            with suppress(ApiError):
                self._store.delete(kind, name, uid)
            return {}

        try:
            await self._call("delete", delete)
        except ApiError as error:
            if not error.missing and not error.conflict:
                raise

    async def _call(self, verb: str, do: Callable[[], Manifest]) -> Manifest:
        """Have a call done on its way; whoever stops waiting for the answer does not stop the call."""
        if verb == "status" and (self._line.away or verb in self._line.troubles or self._line.seconds > 1.0):
            self._line.spoiled = True
        doing = asyncio.ensure_future(self._on_the_way(verb, do))
        doing.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            async with asyncio.timeout(_LIMIT_SECONDS):
                return await asyncio.shield(doing)
        except TimeoutError:
            raise ApiError(0, "Unreachable", "the API server cannot be reached") from None

    async def _on_the_way(self, verb: str, do: Callable[[], Manifest]) -> Manifest:
        await asyncio.sleep(self._line.seconds / 2)
        if self.dead_since is not None and self._store.clock.seconds > self.dead_since + _AFTER_DEATH_SECONDS:
            raise ApiError(0, "Unreachable", "nobody waits for the answer any more")
        if self._line.away:
            await asyncio.sleep(self._line.seconds / 2)
            raise ApiError(0, "Unreachable", "the API server cannot be reached")
        trouble = self._line.next_trouble(verb)
        if trouble is not None and trouble[0] is Trouble.REFUSED:
            raise trouble[1]
        made = do()
        await asyncio.sleep(self._line.seconds / 2)
        if trouble is not None:
            raise trouble[1]
        return made
