"""Lists of all jobs and pods, at the start and now and then: a watch that had to begin anew does not tell what is gone.

One list of all costs the API server what it costs to list the pods of one job: it looks through all of them for that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress

from omnilearn_core.api import names
from omnilearn_core.endings import back_off

from .api import Api, ApiError, Manifest
from .pace import pace_for
from .registry import Key, Registry, Scope

logger = logging.getLogger(__name__)

# The watch begins with a list of its own, a moment after the first: of what goes in between, nobody tells.
_FIRST_SECONDS = 5.0
_FIRST_RETRY, _LONGEST_RETRY = 0.5, 30.0
# Whatever is doubted, there are at most so many lists in the time of one.
_MOST_FOR_DOUBTS = 60
_PODS = f"{names.MANAGED_LABEL}=true"

Touch = Callable[[Key], None]


class Lists:
    """Asks for everything in some namespaces, or in all of them."""

    def __init__(self, api: Api, registry: Registry, namespaces: Collection[str]) -> None:
        self._api, self._registry = api, registry
        self._namespaces = tuple(namespaces) or ("",)
        self._wanted = asyncio.Event()

    def soon(self) -> None:
        """Have everything listed at once: nobody tells of it now."""
        self._wanted.set()

    async def ask(self, key: Key) -> None:
        """Ask for one job as it is now."""
        try:
            self._registry.see_job(await self._api.get(names.KIND, key.namespace, key.name))
        except ApiError as error:
            if not error.missing:
                raise
            self._registry.lose_job(key)

    async def see_everything(self, touch: Touch) -> None:
        """List all jobs, then all pods; whatever is not as it was known is touched."""
        for namespace in self._namespaces:
            for scope, selector in ((Scope(names.KIND, namespace), ""), (Scope("Pod", namespace), _PODS)):
                for key in await self._see(scope, selector):
                    touch(key)

    async def run(self, touch: Touch) -> None:
        """List everything every now and then, for ever."""
        pause, failures = _FIRST_SECONDS, 0
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), pause)
            self._wanted.clear()
            try:
                await self.see_everything(touch)
            except Exception as error:  # noqa: BLE001 - whatever it is: without lists, what is missed is missed for ever
                failures += 1
                pause = back_off(failures, _FIRST_RETRY, _LONGEST_RETRY)
                logger.warning("jobs and pods were not listed: %s; the next try is in %g s", error, pause)
            else:
                pause, failures = pace_for(len(self._registry.jobs)).resync, 0
                await asyncio.sleep(pause / _MOST_FOR_DOUBTS)

    async def _see(self, scope: Scope, selector: str) -> set[Key]:
        """Take in all objects of a kind; return the jobs to which something has happened."""
        listed: set[str] = set()
        news: set[Key | None] = set()
        version = ""
        async for page in self._api.pages(scope.kind, scope.namespace, selector):
            version = version or str(page.get("metadata", {}).get("resourceVersion", ""))
            for manifest in page.get("items") or []:
                listed.add(manifest["metadata"].get("uid", ""))
                if self._registry.is_news(manifest):
                    pod = scope.kind == "Pod"
                    news.add(self._registry.see_pod(manifest) if pod else self._registry.see_job(_whole(manifest)))
        lost = self._registry.lose(scope, listed, version)
        return {key for key in news | lost if key is not None}


def _whole(manifest: Manifest) -> Manifest:
    """Return an item of a list as it would be alone."""
    return {"apiVersion": names.API_VERSION, "kind": names.KIND} | manifest
