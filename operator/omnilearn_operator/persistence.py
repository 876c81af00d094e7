"""Calls that are tried again for a moment, where nothing is wrong with what was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from .api import Api, ApiError, Manifest

Answer = TypeVar("Answer")

# Long enough for an API server that drops calls, short enough not to hold up those who can be helped.
_PAUSES = (0.2, 0.6, 1.5)
_LONGEST_SECONDS = 6.0


def pause_after(error: ApiError, tries: int, spent: float) -> float | None:
    """Return how long to wait after so many tries that have failed; None if it is no use now."""
    if not error.passing or tries > len(_PAUSES):
        return None
    pause = max(_PAUSES[tries - 1], error.retry_after)
    return None if spent + pause > _LONGEST_SECONDS else pause


async def tried_again(call: Callable[[], Awaitable[Answer]]) -> Answer:
    """Make a call, and again after a moment if it fails for no reason of its own."""
    clock = asyncio.get_running_loop().time
    began, tries = clock(), 0
    while True:
        try:
            return await call()
        except ApiError as error:
            tries += 1
            pause = pause_after(error, tries, clock() - began)
            if pause is None:
                raise
        await asyncio.sleep(pause)


class Persistent:
    """An API that tries again.

    That is safe, also where a call was done and only its answer lost: names are used once, deletes name a UID, and what
    has to see the last version says which.
    """

    def __init__(self, api: Api) -> None:
        self._api = api

    async def get(self, kind: str, namespace: str, name: str, version: str = "") -> Manifest:
        """Return an object."""
        return await tried_again(lambda: self._api.get(kind, namespace, name, version))

    async def every(self, kind: str, namespace: str, selector: str = "", fields: str = "") -> Manifest:
        """Return the list of a kind, in a namespace or in all of them."""
        return await tried_again(lambda: self._api.every(kind, namespace, selector, fields))

    def pages(self, kind: str, namespace: str, selector: str = "") -> AsyncIterator[Manifest]:
        """Yield the list of a kind piece by piece; who reads it has to begin anew after an error."""
        return self._api.pages(kind, namespace, selector)

    async def create(self, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        """Create an object, or only have it checked strictly."""
        return await tried_again(lambda: self._api.create(manifest, dry_run=dry_run))

    async def apply(self, manifest: Manifest) -> Manifest:
        """Make an object so, by server-side apply."""
        return await tried_again(lambda: self._api.apply(manifest))

    async def patch(self, kind: str, namespace: str, name: str, body: Manifest, *, status: bool = False) -> Manifest:
        """Merge something into an object, or into its status."""
        return await tried_again(lambda: self._api.patch(kind, namespace, name, body, status=status))

    async def delete(self, kind: str, namespace: str, name: str, uid: str) -> None:
        """Delete just this object; nothing happens if it is gone."""
        await tried_again(lambda: self._api.delete(kind, namespace, name, uid))
