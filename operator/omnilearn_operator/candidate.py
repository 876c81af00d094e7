"""One replica and the Lease: looks at it, takes it, keeps it, gives it back. What to do when is in `leadership`."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from . import leadership
from .api import Api, ApiError, Manifest, version_of
from .leadership import Knowledge, Lease, Look, Renew, StepDown, Take, Timing, Wait
from .reign import Reign

logger = logging.getLogger(__name__)

_RELEASE_SECONDS = 2.0


def since_boot() -> float:
    """Return seconds of a clock that nobody sets, and that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Candidate:
    """A replica of the operator, which leads or is ready to."""

    def __init__(
        self,
        api: Api,
        namespace: str,
        name: str,
        me: str,
        timing: Timing,
        clock: Callable[[], float] = since_boot,
    ) -> None:
        self._api, self._namespace, self._name, self._timing, self._clock = api, namespace, name, timing, clock
        self._known = Knowledge(me)
        self._complaint = ""
        self._answered = -math.inf
        self.looked = time.monotonic()
        """When it last did something about the Lease, whatever came of it."""

        self.reigns = 0
        """How often it has begun to lead."""

    @property
    def informed(self) -> bool:
        """True if it has lately heard who leads, and so could take over."""
        return self._clock() - self._answered < self._timing.lease

    async def take(self) -> Reign:
        """Wait until this replica leads."""
        while self._known.reign is None:
            await self._step()
        self.reigns += 1
        number = self._known.reign
        return Reign(number, lambda: self._decides(number))

    async def keep(self, reign: Reign) -> str:
        """Renew the Lease until the reign is over; return why it is."""
        while (why := await self._step()) is None:
            if self._decides(reign.number) and not reign.holds():
                self._known = leadership.stepped_down(self._known, self._clock())
                return "its time was over before the Lease was renewed"
        return why

    async def step_down(self) -> None:
        """Give the Lease back, so that nobody has to wait until it is over; only when nothing decides any more."""
        mine = self._known.reign
        self._known = leadership.stepped_down(self._known, self._clock())
        if mine is None:
            return
        try:
            async with asyncio.timeout(_RELEASE_SECONDS):
                await self._release(mine)
        except (ApiError, TimeoutError) as error:
            logger.warning("the Lease was not given back, so that others have to wait for its end: %s", error)

    async def _release(self, mine: int) -> None:
        freed = {"holderIdentity": "", "renewTime": _now()}
        try:
            await self._patch(freed)
        except ApiError as error:
            if not error.conflict:
                raise
        else:
            return
        # The last renewal may have been on its way.
        await self._look()
        if (self._known.lease.holder, self._known.lease.reign) == (self._known.me, mine):
            await self._patch(freed)

    def _decides(self, reign: int) -> bool:
        return self._known.reign == reign and leadership.decides(self._known, self._clock(), self._timing)

    async def _step(self) -> str | None:
        """Do what is due; return why this replica cannot lead any more, if that is so."""
        self.looked = time.monotonic()
        match leadership.next_step(self._known, self._clock(), self._timing):
            case Wait(seconds):
                await asyncio.sleep(seconds)
            case Look():
                await self._try(self._look)
            case Take():
                await self._try(self._take)
            case Renew():
                await self._try(self._renew)
            case StepDown(why):
                self._known = leadership.stepped_down(self._known, self._clock())
                return why
        return None

    async def _try(self, call: Callable[[], Awaitable[None]]) -> None:
        limit = leadership.call_seconds(self._known, self._clock(), self._timing)
        try:
            async with asyncio.timeout(limit):
                await call()
        except (ApiError, TimeoutError) as error:
            changed = isinstance(error, ApiError) and (error.conflict or error.missing)
            self._known = leadership.refused(self._known, self._clock(), self._timing, changed=changed)
            self._complain(str(error) or "the API server did not answer in time")
        else:
            self._complaint, self._answered = "", self._clock()

    def _complain(self, sentence: str) -> None:
        """Say what is wrong, once."""
        if sentence != self._complaint:
            logger.warning("the Lease %s/%s: %s", self._namespace, self._name, sentence)
        self._complaint = sentence

    async def _look(self) -> None:
        try:
            found = lease_of(await self._api.get("Lease", self._namespace, self._name))
        except ApiError as error:
            if not error.missing:
                raise
            found = None
        before, self._known = self._known, leadership.read(self._known, found, self._clock(), self._timing)
        holder = self._known.lease.holder
        if holder not in (before.lease.holder, before.me):
            logger.info("%s", f"{holder} leads" if holder else "nobody leads")

    async def _take(self) -> None:
        now = _now()
        number = leadership.next_reign(self._known, time.time())
        spec = self._spec(now) | {"acquireTime": now, "leaseTransitions": number}
        sent = self._clock()
        if self._known.lease.version:
            made = await self._patch(spec)
        else:
            made = await self._api.create(_manifest(self._namespace, self._name, spec))
        self._known = leadership.taken(self._known, lease_of(made), sent, self._timing)

    async def _renew(self) -> None:
        sent = self._clock()
        made = await self._patch(self._spec(_now()))
        self._known = leadership.taken(self._known, lease_of(made), sent, self._timing)

    async def _patch(self, spec: Manifest) -> Manifest:
        """Change the Lease, if nobody else has since it was seen."""
        body = {"metadata": {"resourceVersion": self._known.lease.version}, "spec": spec}
        return await self._api.patch("Lease", self._namespace, self._name, body)

    def _spec(self, now: str) -> Manifest:
        seconds = math.ceil(self._timing.lease)
        return {"holderIdentity": self._known.me, "leaseDurationSeconds": seconds, "renewTime": now}


def lease_of(manifest: Mapping[str, Any]) -> Lease:
    """Return a Lease from its manifest, whoever has written it."""
    spec = manifest.get("spec") or {}
    reign = int(spec.get("leaseTransitions") or 0)
    return Lease(
        version=str(manifest["metadata"].get("resourceVersion", "")),
        holder=str(spec.get("holderIdentity") or ""),
        reign=reign if 0 <= reign < leadership.MOST_REIGNS else 0,
        seconds=float(spec.get("leaseDurationSeconds") or 0),
    )


def _manifest(namespace: str, name: str, spec: Manifest) -> Manifest:
    return {
        "apiVersion": version_of("Lease"),
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
