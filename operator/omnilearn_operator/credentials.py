"""Who speaks, in a cluster: the API server says whose token it is, the watch whether that pod is there."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from omnilearn_coordinator.credentials import Identity
from omnilearn_coordinator.refusals import Refusal, refuse
from omnilearn_core.api import names

from .api import Api, ApiError
from .queueing import CrowdedError, Queue
from .registry import Key, Registry

_EXTRA = "authentication.kubernetes.io"

# A pod that is gone is refused at once by the watch, so a good answer may be believed for a while.
_GOOD_SECONDS, _BAD_SECONDS = 60.0, 5.0
_MOST_REMEMBERED = 20_000
_LONGEST_TOKEN = 16_384

# The watch may be a moment behind a pod that has just begun to run.
_UNSEEN_SECONDS = 5.0


class Bearer(NamedTuple):
    """The pod that a token was given to."""

    namespace: str
    pod: str
    uid: str


def bearer_of(review: Mapping[str, Any]) -> Bearer | None:
    """Return whose token it is by the API server's answer; None if it is not good, or not a pod's."""
    status = review.get("status", {})
    if not status.get("authenticated") or names.TOKEN_AUDIENCE not in status.get("audiences", []):
        return None
    user = status.get("user", {})
    extra = user.get("extra", {})
    pod, uid = (next(iter(extra.get(f"{_EXTRA}/pod-{what}", [])), "") for what in ("name", "uid"))
    account = str(user.get("username", "")).split(":")
    if len(account) != 4 or account[:2] != ["system", "serviceaccount"] or not pod or not uid:
        return None
    return Bearer(account[2], pod, uid)


Remembered = OrderedDict[bytes, tuple[Bearer | None, float]]
"""Whose a token is, by its digest, and until when that is believed."""


class Reviews:
    """Asks the API server whose a token is, and remembers the answer for a while, by the token's hash."""

    def __init__(self, api: Api, clock: Callable[[], float] = time.monotonic) -> None:
        self._api, self._clock = api, clock
        self._good: Remembered = OrderedDict()
        self._bad: Remembered = OrderedDict()
        self.queue = Queue(clock)

    async def bearer(self, token: str, address: str = "") -> Bearer | None:
        """Return whose token it is, or None if it is nobody's; raises ApiError if nobody can tell."""
        if len(token) > _LONGEST_TOKEN:
            return None
        digest = hashlib.sha256(token.encode(errors="replace")).digest()
        found = self._remembered(digest)
        if found is not None:
            return found[0]
        async with self.queue.turn(address):
            found = self._remembered(digest)  # somebody else may have asked meanwhile
            return await self._ask(token, digest, address) if found is None else found[0]

    async def _ask(self, token: str, digest: bytes, address: str) -> Bearer | None:
        bearer = bearer_of(await self._api.create(_question(token)))
        # Apart from each other: many bad tokens must not push out what is known of good ones.
        kept, seconds = (self._bad, _BAD_SECONDS) if bearer is None else (self._good, _GOOD_SECONDS)
        now = self._clock()
        # All of them are kept equally long, so the first to come are the first to go.
        while kept and (len(kept) >= _MOST_REMEMBERED or next(iter(kept.values()))[1] <= now):
            kept.popitem(last=False)
        kept[digest] = bearer, now + seconds
        kept.move_to_end(digest)
        if bearer is None:
            self.queue.blame(address)
        return bearer

    def _remembered(self, digest: bytes) -> tuple[Bearer | None, float] | None:
        found = self._good.get(digest) or self._bad.get(digest)
        return found if found is not None and self._clock() < found[1] else None


class PodCredentials:
    """The credentials of one job: tokens of its own pods, as long as they are its pods."""

    def __init__(self, key: Key, reviews: Reviews, registry: Registry) -> None:
        self._key, self._reviews, self._registry = key, reviews, registry

    async def identify(self, token: str, address: str = "") -> Identity | None:
        """Return whose token it is; a worker is asked to come again if nobody can tell now."""
        try:
            with self._reviews.queue.place(address):
                return await self._identified(token, address)
        except ApiError as error:
            raise refuse(503, f"the token cannot be checked now: {error.sentence}", Refusal.UNABLE) from None
        except CrowdedError as error:
            raise refuse(429, str(error), Refusal.RATE) from None

    async def _identified(self, token: str, address: str) -> Identity | None:
        bearer = await self._reviews.bearer(token, address)
        if bearer is None or bearer.namespace != self._key.namespace:
            return None
        pod = await self._registry.appear(self._key, bearer.uid, _UNSEEN_SECONDS)
        return None if pod is None or pod.name != bearer.pod else Identity(pod.worker, pod.attempt)


def _question(token: str) -> dict[str, Any]:
    return {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token, "audiences": [names.TOKEN_AUDIENCE]},
    }
