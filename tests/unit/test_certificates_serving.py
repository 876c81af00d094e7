"""What handshakes see of a certificate that changes, over real sockets."""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import ClientSession, WSMsgType, web
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from omnilearn_operator.certificates import Bundle, ServerTls, next_bundle

NOW = datetime.now(UTC)
LIMIT_SECONDS = 5.0


def made() -> Bundle:
    bundle = next_bundle(None, ["localhost"], NOW)
    assert bundle is not None
    return bundle


ONE, OTHER = made(), made()


def with_rsa() -> Bundle:
    """Return a certificate of the other common kind of keys, signed by itself."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "somebody")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 7, NOW - timedelta(days=1), NOW + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, SHA256())
    )
    text = certificate.public_bytes(Encoding.PEM).decode()
    shown = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return Bundle(authorities=text, certificate=text, key=shown)


async def echo(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    async for message in socket:
        await socket.send_str(message.data)
    return socket


@asynccontextmanager
async def serving(tls: ServerTls) -> AsyncIterator[int]:
    app = web.Application()
    app.router.add_get("/", echo)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls.context).start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def play(tls: ServerTls, scene: Callable[[int], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(4 * LIMIT_SECONDS), serving(tls) as port:
            await scene(port)

    asyncio.run(whole())


async def shown(port: int, name: str | None = "localhost") -> str:
    """Return the certificate that a new connection is shown; this one trusts everybody."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name or "")
    seen = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return x509.load_der_x509_certificate(seen).public_bytes(Encoding.PEM).decode()


def test_who_is_connected_stays_and_who_connects_sees_the_new_certificate() -> None:
    tls = ServerTls()
    tls.update(ONE)

    async def scene(port: int) -> None:
        trusting = ssl.create_default_context(cadata=ONE.authorities)
        async with ClientSession() as session, session.ws_connect(f"https://localhost:{port}", ssl=trusting) as socket:
            tls.update(OTHER)
            assert await shown(port) == OTHER.certificate
            await socket.send_str("still here")
            message = await socket.receive()
            assert (message.type, message.data) == (WSMsgType.TEXT, "still here")

    play(tls, scene)


def test_workers_trust_it_by_its_authority_alone() -> None:
    tls = ServerTls()
    tls.update(ONE)

    async def scene(port: int) -> None:
        async with ClientSession() as session:
            for bundle, trusted in ((ONE, True), (OTHER, False)):
                context = ssl.create_default_context(cadata=bundle.authorities)
                try:
                    async with session.ws_connect(f"https://localhost:{port}", ssl=context):
                        assert trusted
                except OSError:
                    assert not trusted

    play(tls, scene)


def test_a_client_that_names_no_server_is_served_too() -> None:
    tls = ServerTls()
    tls.update(ONE)

    async def scene(port: int) -> None:
        assert await shown(port, name=None) == ONE.certificate

    play(tls, scene)


def test_before_there_is_a_certificate_handshakes_fail_and_afterwards_they_do_not() -> None:
    tls = ServerTls()

    async def scene(port: int) -> None:
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            await shown(port)
        tls.update(ONE)
        assert await shown(port) == ONE.certificate

    play(tls, scene)


def test_a_certificate_of_another_kind_takes_the_place_of_the_former() -> None:
    other_kind = with_rsa()
    tls = ServerTls()

    async def scene(port: int) -> None:
        for bundle in (other_kind, ONE, other_kind):
            tls.update(bundle)
            assert await shown(port) == bundle.certificate

    play(tls, scene)


@pytest.mark.parametrize("bad", [replace(OTHER, key=ONE.key), replace(OTHER, certificate="nonsense"), Bundle()])
def test_one_that_does_not_load_leaves_the_former(bad: Bundle) -> None:
    tls = ServerTls()
    tls.update(ONE)

    async def scene(port: int) -> None:
        with pytest.raises(ssl.SSLError):
            tls.update(bad)
        assert await shown(port) == ONE.certificate

    play(tls, scene)


def test_old_protocols_are_refused_and_nobody_is_asked_for_a_certificate() -> None:
    context = ServerTls().context
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.verify_mode is ssl.CERT_NONE


@pytest.mark.parametrize("in_memory", [True, False])
def test_nothing_of_the_key_is_left_in_files(in_memory: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir())) if descriptors.exists() else 0
    ServerTls().update(ONE)
    assert list(tmp_path.iterdir()) == []
    assert (len(list(descriptors.iterdir())) if descriptors.exists() else 0) == before
