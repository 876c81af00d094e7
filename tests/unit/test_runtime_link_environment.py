"""What a worker's environment says of whom to trust."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from omnilearn_core.api import names
from omnilearn_operator.certificates import next_bundle
from omnilearn_runtime.environment import BadEnvironmentError, read


@pytest.fixture
def authorities(tmp_path: Path) -> Path:
    return tmp_path / "authorities.pem"


def certificate() -> str:
    made = next_bundle(None, ["localhost"], datetime.now(UTC))
    assert made is not None
    return made.authorities


def variables(tmp_path: Path, address: str, authorities: Path | None) -> dict[str, str]:
    token = tmp_path / "token"
    token.write_text("t")
    given = {
        names.ENV_COORDINATOR: address,
        names.ENV_JOB: "j",
        names.ENV_WORKER: "w",
        names.ENV_TOKEN_FILE: str(token),
    }
    return given if authorities is None else given | {names.ENV_AUTHORITIES_FILE: str(authorities)}


def test_a_secure_address_needs_somebody_to_trust(tmp_path: Path) -> None:
    with pytest.raises(BadEnvironmentError, match="wss://h:1, but OMNILEARN_AUTHORITIES_FILE is not set: name a"):
        read(variables(tmp_path, "wss://h:1", None))


def test_a_file_that_is_not_there_is_said(tmp_path: Path, authorities: Path) -> None:
    with pytest.raises(BadEnvironmentError, match=r"which cannot be read \(No such file or directory\)"):
        read(variables(tmp_path, "wss://h:1", authorities))


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\xff\xfe", b"-----BEGIN CERTIFICATE-----\n"])
def test_a_file_without_a_certificate_is_said(content: bytes, tmp_path: Path, authorities: Path) -> None:
    authorities.write_bytes(content)
    with pytest.raises(BadEnvironmentError, match="which holds no certificate: put those of the authorities to trust"):
        read(variables(tmp_path, "wss://h:1", authorities))


def test_a_secure_environment_trusts_its_file_alone(tmp_path: Path, authorities: Path) -> None:
    authorities.write_text(certificate() + certificate())
    context = read(variables(tmp_path, "wss://h:1", authorities)).fresh_tls()
    assert context is not None
    assert context.cert_store_stats()["x509_ca"] == 2


def test_a_plain_address_needs_nobody_to_trust(tmp_path: Path) -> None:
    assert read(variables(tmp_path, "ws://h:1", None)).fresh_tls() is None
