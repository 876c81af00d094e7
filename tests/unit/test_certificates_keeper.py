"""The keeper of the certificate's Secret, also when there are two."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from omnilearn_operator.certificates import Bundle, CertificateError, ConflictError, Keeper, Mode, next_bundle

NAMES = ("coordinator.system.svc",)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECRET = "omnilearn-certificate"  # noqa: S105 - the name of one


class Secrets:
    """One Secret, in memory; everybody reads before anybody writes."""

    def __init__(self, data: Mapping[str, bytes] | None = None) -> None:
        self.data, self.version = dict(data or {}), 1
        self.writes = 0
        self.always_changing = False

    async def read(self, name: str) -> tuple[dict[str, bytes], str]:
        assert name == SECRET
        read = (dict(self.data), str(self.version))
        await asyncio.sleep(0)
        return read

    async def write(self, name: str, data: Mapping[str, bytes], resource_version: str) -> None:
        assert name == SECRET
        await asyncio.sleep(0)
        if resource_version != str(self.version) or self.always_changing:
            raise ConflictError
        self.data |= data
        self.version += 1
        self.writes += 1


def keeper_of(secrets: Secrets, mode: Mode = Mode.SELF, days: int = 0) -> Keeper:
    return Keeper(secrets, SECRET, mode, NAMES, lambda: NOW + timedelta(days=days))


def test_an_empty_secret_is_filled_once() -> None:
    secrets = Secrets({"other": b"kept"})
    keeper = keeper_of(secrets)
    bundle = asyncio.run(keeper.refresh())
    assert asyncio.run(keeper.refresh()) == bundle == Bundle.from_data(secrets.data)
    assert (secrets.writes, secrets.data["other"]) == (1, b"kept")


def test_two_at_once_agree() -> None:
    async def both(secrets: Secrets) -> tuple[Bundle, Bundle]:
        return await asyncio.gather(keeper_of(secrets).refresh(), keeper_of(secrets).refresh())

    secrets = Secrets()
    first, second = asyncio.run(both(secrets))
    assert first == second
    assert secrets.writes == 1


def test_what_is_due_is_renewed() -> None:
    secrets = Secrets()
    bundle = asyncio.run(keeper_of(secrets).refresh())
    renewed = asyncio.run(keeper_of(secrets, days=70).refresh())
    assert renewed.certificate != bundle.certificate
    assert renewed == Bundle.from_data(secrets.data)


def test_a_secret_that_never_stands_still_is_said() -> None:
    secrets = Secrets()
    secrets.always_changing = True
    with pytest.raises(CertificateError, match="look who else writes to it"):
        asyncio.run(keeper_of(secrets).refresh())


def test_it_looks_again_soon_until_all_is_well() -> None:
    secrets = Secrets()
    keeper = keeper_of(secrets, Mode.GIVEN)
    with pytest.raises(CertificateError, match=r"of the Secret \S+ cannot be used: tls.crt is missing.*;"):
        asyncio.run(keeper.refresh())
    soon = keeper.pause
    given = next_bundle(None, NAMES, NOW)
    assert given is not None
    secrets.data = given.to_data()
    assert asyncio.run(keeper.refresh()) == given
    assert soon < keeper.pause


def test_what_is_given_is_never_written() -> None:
    given = next_bundle(None, NAMES, NOW - timedelta(days=89))
    assert given is not None
    secrets = Secrets(given.to_data())
    assert asyncio.run(keeper_of(secrets, Mode.GIVEN).refresh()) == given
    assert secrets.writes == 0


def test_a_given_certificate_of_another_authority_is_served_later() -> None:
    one, other = next_bundle(None, NAMES, NOW), next_bundle(None, NAMES, NOW)
    assert one is not None
    assert other is not None
    now = [NOW]
    secrets = Secrets(one.to_data())
    keeper = Keeper(secrets, SECRET, Mode.GIVEN, NAMES, lambda: now[0])
    asyncio.run(keeper.refresh())
    secrets.data = other.to_data()
    assert asyncio.run(keeper.refresh()).certificate == one.certificate
    now[0] += timedelta(minutes=10)
    assert asyncio.run(keeper.refresh()) == other
