"""Who speaks: a token becomes a worker's attempt. A local run issues tokens itself; a cluster asks its API server."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Identity:
    """One attempt of a worker: it can speak only for itself."""

    worker: str
    attempt: int


class Credentials(Protocol):
    """Whoever can tell whose token it is."""

    async def identify(self, token: str, address: str) -> Identity | None:
        """Return whose token it is, or None if it is nobody's; ``address`` is where it came from."""
        ...


class Tokens:
    """Random tokens, one for each attempt of a worker. Only their hashes are kept."""

    def __init__(self) -> None:
        self._identities: dict[bytes, Identity] = {}

    def issue(self, worker: str, attempt: int) -> str:
        """Return a new token for an attempt; earlier ones of the same attempt are void."""
        self.revoke(worker, attempt)
        token = secrets.token_urlsafe(32)
        self._identities[_digest(token)] = Identity(worker, attempt)
        return token

    def revoke(self, worker: str, attempt: int | None = None) -> None:
        """Make the tokens of an attempt void, or of all attempts of a worker."""
        gone = [key for key, one in self._identities.items() if one.worker == worker and attempt in (None, one.attempt)]
        for key in gone:
            del self._identities[key]

    async def identify(self, token: str, address: str = "") -> Identity | None:
        """Return whose token it is; the look-up by hash tells nothing by its duration."""
        return self._identities.get(_digest(token))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()
