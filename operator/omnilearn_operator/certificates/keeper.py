"""Keeps the certificate's Secret: reads it, renews what is in it, or judges what somebody else has put there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Protocol

from .bundle import Bundle
from .given import Serving, defects, follow
from .renewal import next_bundle

_LOOK_SECONDS = 60.0
_LOOK_SOON_SECONDS = 5.0
_CALL_SECONDS = 20.0
_MOST_CONFLICTS = 5


class ConflictError(RuntimeError):
    """The Secret has changed since it was read."""


class CertificateError(RuntimeError):
    """There is no certificate that could be served; the sentence says why."""


class SecretApi(Protocol):
    """What the keeper needs of Kubernetes. Values are plain bytes: base64 is the implementation's business."""

    async def read(self, name: str) -> tuple[dict[str, bytes], str]:
        """Return the data of a Secret of the operator's own namespace, and its resourceVersion."""
        ...

    async def write(self, name: str, data: Mapping[str, bytes], resource_version: str) -> None:
        """Patch these keys of a Secret; raise ConflictError if it has another resourceVersion by now."""
        ...


class Mode(StrEnum):
    """Who makes the certificate."""

    SELF = "self"
    GIVEN = "given"


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Keeper:
    """Brings the bundle of today: call `refresh`, serve what it returns, wait `pause` seconds, and again."""

    def __init__(
        self,
        api: SecretApi,
        secret: str,
        mode: Mode,
        dns_names: Sequence[str],
        clock: Callable[[], datetime] = _utc_now,
    ) -> None:
        self._api, self._secret, self._mode, self._clock = api, secret, mode, clock
        self._dns_names = tuple(dns_names)
        self._serving: Serving | None = None
        self._in_order = False

    @property
    def pause(self) -> float:
        """Seconds until it should look again: reading one Secret costs little, and it may be changed by hand."""
        return _LOOK_SECONDS if self._in_order else _LOOK_SOON_SECONDS

    async def refresh(self) -> Bundle:
        """Return what to serve now; raises CertificateError, TimeoutError or what the API raises, and can be repeated.

        Whoever serves a bundle already goes on with it when this fails.
        """
        self._in_order = False
        bundle = await (self._renewed() if self._mode is Mode.SELF else self._given())
        self._in_order = True
        return bundle

    async def _renewed(self) -> Bundle:
        for _ in range(_MOST_CONFLICTS):
            current, version = await self._read()
            renewed = next_bundle(current, self._dns_names, self._clock())
            if renewed is None:
                return current
            try:
                async with asyncio.timeout(_CALL_SECONDS):
                    await self._api.write(self._secret, renewed.to_data(), version)
            except ConflictError:
                continue  # another operator was faster: its bundle counts
            return renewed
        raise CertificateError(
            f"the Secret {self._secret} changes whenever the certificate is to be written: look who else writes to it"
        )

    async def _given(self) -> Bundle:
        given, _ = await self._read()
        now = self._clock()
        wrong = defects(given, self._dns_names, now)
        if wrong:
            raise CertificateError(f"the certificate of the Secret {self._secret} cannot be used: {'; '.join(wrong)}")
        self._serving = follow(self._serving, given, now)
        return self._serving.bundle

    async def _read(self) -> tuple[Bundle, str]:
        async with asyncio.timeout(_CALL_SECONDS):
            data, version = await self._api.read(self._secret)
        return Bundle.from_data(data), version
