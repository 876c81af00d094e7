"""Who may have a token checked next: no address takes all the places, and bad tokens cost the one that sends them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from omnilearn_coordinator.limits import Allowance

_MOST_AT_ONCE = 32
_OF_ONE_ADDRESS = 4

# Pods have addresses of their own: this is far more than one of them needs, and enough for some behind one address.
_MOST_WAITING = 64
_BAD_AT_ONCE, _BAD_EACH_SECOND = 30.0, 1.0
_MOST_ADDRESSES = 10_000


class CrowdedError(RuntimeError):
    """An address asks for too much; the sentence says of what."""


class _Address:
    """What is known of an address."""

    def __init__(self, now: float) -> None:
        self.places = asyncio.Semaphore(_OF_ONE_ADDRESS)
        self.bad = Allowance(_BAD_AT_ONCE, _BAD_EACH_SECOND, now)
        self.waiting = 0

    def idle(self, now: float) -> bool:
        return self.waiting == 0 and self.bad.left(now) and self.bad.spent == 0.0


class Queue:
    """Everybody who waits for a token to be checked."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._places = asyncio.Semaphore(_MOST_AT_ONCE)
        self._addresses: dict[str, _Address] = {}

    @contextmanager
    def place(self, address: str) -> Iterator[None]:
        """Count somebody who waits to be known; raises CrowdedError if there are too many from there."""
        known = self._known(address)
        if known.waiting >= _MOST_WAITING:
            raise CrowdedError(f"{_MOST_WAITING} connections from this address wait to be known: come again later")
        known.waiting += 1
        try:
            yield
        finally:
            known.waiting -= 1

    @asynccontextmanager
    async def turn(self, address: str) -> AsyncIterator[None]:
        """Wait for the turn of a token that is not known; raises CrowdedError after too many bad ones."""
        known = self._known(address)
        async with known.places:
            if not known.bad.left(self._clock()):
                raise CrowdedError("too many bad tokens came from this address: come again later")
            async with self._places:
                yield

    def blame(self, address: str) -> None:
        """Note that a token from an address was bad."""
        self._known(address).bad.owe(self._clock())

    def _known(self, address: str) -> _Address:
        now = self._clock()
        if address not in self._addresses and len(self._addresses) >= _MOST_ADDRESSES:
            self._addresses = {name: each for name, each in self._addresses.items() if not each.idle(now)}
        return self._addresses.setdefault(address, _Address(now))
