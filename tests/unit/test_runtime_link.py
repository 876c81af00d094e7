"""A worker's connection to its coordinator, with TLS and without, over real sockets."""

from __future__ import annotations

import asyncio
import logging
import queue
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import WSMsgType, web
from websockets.sync.client import connect

from omnilearn_core.api import names
from omnilearn_core.api.frames import to_frame
from omnilearn_core.api.messages import Leave, ToWorker, Welcome
from omnilearn_operator.certificates import Bundle, ServerTls, next_bundle
from omnilearn_runtime import link as links
from omnilearn_runtime import secure
from omnilearn_runtime.environment import Environment
from omnilearn_runtime.link import Link

NOW = datetime.now(UTC)
LIMIT_SECONDS = 10.0


def made(current: Bundle | None = None, now: datetime = NOW) -> Bundle:
    bundle = next_bundle(current, ["localhost"], now)
    assert bundle is not None
    return bundle


class Desk:
    """Stands for the coordinator: welcomes everybody, and keeps what is said."""

    def __init__(self) -> None:
        self.tls = ServerTls()
        self.port = 0
        self.said: asyncio.Queue[str] = asyncio.Queue()
        self.open: list[web.WebSocketResponse] = []
        self.welcomed = 0
        self.answers, self.report_seconds = True, 1.0

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(autoping=self.answers)
        await socket.prepare(request)
        self.open.append(socket)
        self.welcomed += 1
        seconds = self.report_seconds
        welcome = Welcome(term=1, global_batch=self.welcomed, running=False, report_seconds=seconds)
        await socket.send_str(to_frame(welcome))
        async for message in socket:
            if message.type is WSMsgType.TEXT:
                self.said.put_nowait(message.data)
        return socket

    @asynccontextmanager
    async def at_work(self, *, secured: bool) -> AsyncIterator[str]:
        app = web.Application()
        app.router.add_get(names.worker_path("{job}", "{worker}"), self.serve)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self.tls.context if secured else None)
        try:
            await site.start()
            server = site._server
            yield f"{'wss' if secured else 'ws'}://localhost:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()
            # Somebody may be in the middle of a handshake, which nobody else waits for.
            await until(lambda: not getattr(server, "_active_count", 0))


class Worker:
    """A link, and what it hears."""

    def __init__(self, environment: Environment) -> None:
        self.heard: queue.Queue[ToWorker] = queue.Queue()
        self.link = Link(environment, list, self.heard.put, lambda error: pytest.fail(str(error)))

    async def welcome(self) -> int:
        """Return the number of the welcome."""
        message = await asyncio.to_thread(self.heard.get, timeout=LIMIT_SECONDS)
        assert isinstance(message, Welcome)
        return message.global_batch


@asynccontextmanager
async def working(environment: Environment) -> AsyncIterator[Worker]:
    worker = Worker(environment)
    worker.link.start()
    try:
        yield worker
    finally:
        await asyncio.to_thread(worker.link.close)


def play(scene: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(3 * LIMIT_SECONDS):
            await scene()

    asyncio.run(whole())


def environment_of(address: str, authorities: Path | None = None) -> Environment:
    return Environment(job="j", worker="w", coordinator=address, token_file=None, authorities_file=authorities)


def trust(file: Path, authorities: str) -> None:
    file.write_text(authorities)


@pytest.fixture
def authorities(tmp_path: Path) -> Path:
    return tmp_path / "authorities.pem"


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows with every attempt to connect."""
    seen: list[str] = []
    dial = secure.dial

    def counted(host: str, *others: object) -> object:
        seen.append(host)
        return dial(host, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(secure, "dial", counted)
    monkeypatch.setattr(links, "_LONGEST_BACK_OFF", 0.05)
    return seen


async def until(true: Callable[[], bool]) -> None:
    while not true():  # noqa: ASYNC110 - a thread has no event for tests; play has the limit
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("secured", [True, False])
def test_a_worker_hears_and_says(secured: bool, authorities: Path) -> None:
    async def scene() -> None:
        desk, bundle = Desk(), made()
        desk.tls.update(bundle)
        trust(authorities, bundle.authorities)
        async with desk.at_work(secured=secured) as address, working(environment_of(address, authorities)) as worker:
            assert await worker.welcome() == 1
            worker.link.send(Leave(why="enough"))
            assert "enough" in await desk.said.get()

    play(scene)


def test_a_stranger_is_refused_until_he_is_trusted_and_that_is_said_once(
    authorities: Path, attempts: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        desk, bundle = Desk(), made()
        desk.tls.update(bundle)
        trust(authorities, made().authorities)
        async with desk.at_work(secured=True) as address, working(environment_of(address, authorities)) as worker:
            await until(lambda: len(attempts) > 3)
            assert desk.welcomed == 0
            trust(authorities, bundle.authorities)
            await worker.welcome()

    play(scene)
    (said,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert said.startswith("the coordinator's certificate is not trusted (")
    assert str(authorities) in said


def test_a_coordinator_of_another_name_is_refused(
    authorities: Path, attempts: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        desk, bundle = Desk(), next_bundle(None, ["somebody.else"], NOW)
        assert bundle is not None
        desk.tls.update(bundle)
        trust(authorities, bundle.authorities)
        async with desk.at_work(secured=True) as address, working(environment_of(address, authorities)):
            await until(lambda: len(attempts) > 1)
        assert desk.welcomed == 0

    play(scene)
    assert "Hostname mismatch" in caplog.text


def test_a_file_that_is_gone_for_a_while_costs_only_time(
    authorities: Path, attempts: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        desk, bundle = Desk(), made()
        desk.tls.update(bundle)
        async with desk.at_work(secured=True) as address, working(environment_of(address, authorities)) as worker:
            await until(lambda: "cannot be read" in caplog.text)
            trust(authorities, bundle.authorities)
            await worker.welcome()

    play(scene)
    assert caplog.text.count("WARNING") == 1


def test_a_new_authority_costs_no_connection(authorities: Path) -> None:
    old = made(now=NOW - timedelta(days=2600))
    both = made(old, NOW - timedelta(minutes=11))
    new = made(both)

    async def scene() -> None:
        desk = Desk()
        trust(authorities, both.authorities)
        desk.tls.update(both)
        async with desk.at_work(secured=True) as address, working(environment_of(address, authorities)) as first:
            await first.welcome()
            desk.tls.update(new)
            async with working(environment_of(address, authorities)) as second:
                await second.welcome()
            first.link.send(Leave(why="still here"))
            assert "still here" in await desk.said.get()
            assert (desk.welcomed, first.heard.qsize()) == (2, 0)

    play(scene)


def test_a_lost_connection_comes_back(authorities: Path) -> None:
    async def scene() -> None:
        desk, bundle = Desk(), made()
        desk.tls.update(bundle)
        trust(authorities, bundle.authorities)
        async with desk.at_work(secured=True) as address, working(environment_of(address, authorities)) as worker:
            await worker.welcome()
            await desk.open[0].close()
            assert await worker.welcome() == 2

    play(scene)


@pytest.mark.parametrize("answers", [True, False])
def test_only_a_coordinator_that_does_not_answer_is_left(answers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "_QUIET_SECONDS", 0.1)

    async def scene() -> None:
        desk = Desk()
        desk.answers, desk.report_seconds = answers, 0.05
        async with desk.at_work(secured=False) as address, working(environment_of(address)) as worker:
            await worker.welcome()
            await asyncio.wait([asyncio.create_task(until(lambda: desk.welcomed > 1))], timeout=1.0)
            assert (desk.welcomed == 1) == answers

    play(scene)


def test_one_thread_reads_while_another_writes() -> None:
    """Python's own ssl sockets do not bear this: the process dies."""
    frames = [str(number) * 2000 for number in range(1000)]
    desk, bundle = Desk(), made()
    desk.tls.update(bundle)

    async def flood(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)

        async def talk() -> None:
            for frame in frames:
                await socket.send_str(frame)

        talking = asyncio.create_task(talk())
        async for message in socket:
            desk.said.put_nowait(message.data)
        await talking
        return socket

    def converse(address: str) -> list[str]:
        context = ssl.create_default_context(cadata=bundle.authorities)
        host, _, port = address.removeprefix("wss://").partition(":")
        socket = secure.dial(host, int(port), context, LIMIT_SECONDS)
        with connect(f"ws://{host}:{port}/v1/jobs/j/workers/w", sock=socket, compression=None, proxy=None) as talking:
            writer = threading.Thread(target=lambda: list(map(talking.send, frames)))
            writer.start()
            heard = [str(talking.recv(LIMIT_SECONDS)) for _ in frames]
            writer.join(LIMIT_SECONDS)
        return heard

    async def scene() -> None:
        desk.serve = flood  # type: ignore[method-assign]
        async with desk.at_work(secured=True) as address:
            assert await asyncio.to_thread(converse, address) == frames
            assert [await desk.said.get() for _ in frames] == frames

    play(scene)
