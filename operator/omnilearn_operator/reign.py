"""The right to decide: for one reign, and only as long as the Lease is sure."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from .api import Api, ApiError, Manifest
from .leadership import TERMS_OF_A_REIGN, term_of


class Reign:
    """One time of leading. Once it is over it stays over: what is left of it can do no harm."""

    def __init__(self, number: int, decides: Callable[[], bool]) -> None:
        self.number = number
        self._decides, self._over, self._terms = decides, False, 0

    def holds(self) -> bool:
        """Tell whether this operator may decide at this very moment."""
        if not self._over and not self._decides():
            self._over = True
        return not self._over

    def end(self) -> None:
        """Decide nothing from now on."""
        self._over = True

    def next_term(self) -> int:
        """Return a term for a coordinator, higher than all before."""
        self._terms += 1
        if self._terms >= TERMS_OF_A_REIGN - 1:
            self._over = True  # the next reign has more of them
        return term_of(self.number, self._terms)


class Fenced:
    """The API for one reign: nothing is written when it is over."""

    def __init__(self, api: Api, reign: Reign) -> None:
        self._api, self._reign = api, reign

    async def get(self, kind: str, namespace: str, name: str, version: str = "") -> Manifest:
        """Return an object."""
        return await self._api.get(kind, namespace, name, version)

    async def every(self, kind: str, namespace: str, selector: str = "", fields: str = "") -> Manifest:
        """Return the list of a kind, in a namespace or in all of them."""
        return await self._api.every(kind, namespace, selector, fields)

    def pages(self, kind: str, namespace: str, selector: str = "") -> AsyncIterator[Manifest]:
        """Yield the same list in pieces."""
        return self._api.pages(kind, namespace, selector)

    async def create(self, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        """Create an object, or only have it checked strictly."""
        self._check()
        return await self._api.create(manifest, dry_run=dry_run)

    async def apply(self, manifest: Manifest) -> Manifest:
        """Make an object so, by server-side apply."""
        self._check()
        return await self._api.apply(manifest)

    async def patch(self, kind: str, namespace: str, name: str, body: Manifest, *, status: bool = False) -> Manifest:
        """Merge something into an object, or into its status."""
        self._check()
        return await self._api.patch(kind, namespace, name, body, status=status)

    async def delete(self, kind: str, namespace: str, name: str, uid: str) -> None:
        """Delete just this object; nothing happens if it is gone."""
        self._check()
        await self._api.delete(kind, namespace, name, uid)

    def _check(self) -> None:
        if not self._reign.holds():
            raise ApiError(0, "NotLeading", "this operator does not lead any more: nothing is written")
