"""The proxy that injects faults does inject them: one that lets everything pass would prove nothing."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import yaml
from aiohttp import web

from faulty_api import Asked, Fault, FaultyApi, asked_of
from kube_login import Login, login_of

PODS = "/api/v1/namespaces/team/pods"
_LIMIT = 20.0


class Upstream:
    """Stands for the API server: it creates, lists, and tells of what a test says."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.events: asyncio.Queue[int] = asyncio.Queue()
        self.watches = 0

    async def serve(self, request: web.Request) -> web.StreamResponse:
        if request.method == "POST":
            whole = await request.json()
            self.made.append(whole["metadata"]["name"])
            return web.json_response(whole, status=201)
        if "watch" not in request.query:
            return web.json_response({"items": self.made})
        response = web.StreamResponse()
        await response.prepare(request)
        self.watches += 1
        while True:
            number = await self.events.get()
            await response.write(json.dumps({"type": "ADDED", "number": number}).encode() + b"\n")


class Scene:
    """A client, the proxy, and what is behind it."""

    def __init__(self, proxy: FaultyApi, upstream: Upstream, session: aiohttp.ClientSession) -> None:
        self.proxy, self.upstream, self._session = proxy, upstream, session

    async def create(self, name: str) -> int:
        """Return the status of an attempt to create something; 0 if there is no answer."""
        try:
            async with self._session.post(self._url(PODS), json={"metadata": {"name": name}}) as answer:
                return answer.status
        except aiohttp.ClientError:
            return 0

    async def find(self) -> tuple[int, str]:
        """Return the status of a list, and when to come again."""
        async with self._session.get(self._url(PODS)) as answer:
            return answer.status, answer.headers.get("Retry-After", "")

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[Callable[[], Awaitable[object]]]:
        """Watch; the value returns what is told next: a number, an error's code, or that the watch is over."""
        async with self._session.get(self._url(PODS), params={"watch": "true"}) as answer:

            async def following() -> object:
                try:
                    line = await answer.content.readline()
                except aiohttp.ClientError:
                    return "cut"
                if not line:
                    return "over"
                told = json.loads(line)
                return told["object"]["code"] if told["type"] == "ERROR" else told["number"]

            yield following

    def _url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.proxy.port}{path}"


def play(scene: Callable[[Scene], Awaitable[None]]) -> FaultyApi:
    async def run() -> FaultyApi:
        upstream, app = Upstream(), web.Application()
        app.router.add_route("*", "/{path:.*}", upstream.serve)
        runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        address = f"http://127.0.0.1:{runner.addresses[0][1]}"
        proxy = FaultyApi(Login(address, {"Authorization": "Bearer t"}, ssl.create_default_context()))
        try:
            proxy.start()
            async with asyncio.timeout(_LIMIT), aiohttp.ClientSession() as session:
                await scene(Scene(proxy, upstream, session))
        finally:
            await asyncio.to_thread(proxy.stop)
            await runner.cleanup()
        return proxy

    return asyncio.run(run())


# What is asked


@pytest.mark.parametrize(
    ("method", "path", "query", "asked"),
    [
        ("GET", PODS, {}, Asked("list", "pods")),
        ("GET", PODS, {"watch": "true"}, Asked("watch", "pods")),
        ("GET", f"{PODS}/p", {}, Asked("get", "pods", "p")),
        ("POST", PODS, {}, Asked("create", "pods")),
        ("POST", PODS, {"dryRun": "All"}, Asked("try", "pods")),
        ("DELETE", f"{PODS}/p", {}, Asked("delete", "pods", "p")),
        ("PATCH", f"{PODS}/p", {}, Asked("patch", "pods", "p")),
        ("PATCH", "/apis/g/v1/namespaces/n/jobs/j/status", {}, Asked("status", "jobs", "j")),
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {}, Asked("create", "tokenreviews")),
        ("GET", "/apis/g/v1", {}, Asked("list", "")),
    ],
)
def test_requests_are_understood(method: str, path: str, query: dict[str, str], asked: Asked) -> None:
    assert asked_of(method, path, query) == asked


# Requests


def test_without_faults_everything_passes() -> None:
    async def scene(it: Scene) -> None:
        assert (await it.create("a"), it.upstream.made) == (201, ["a"])
        assert await it.find() == (200, "")

    seen = play(scene).seen
    assert (seen.pods(), seen.answered(200, 201), seen.count("create", "pods")) == (["a"], 2, 1)


@pytest.mark.parametrize("status", [409, 410, 429, 500])
def test_a_fault_is_answered_and_nothing_is_done(status: int) -> None:
    async def scene(it: Scene) -> None:
        it.proxy.faults = (Fault(status=status),)
        assert (await it.create("a"), it.upstream.made) == (status, [])
        assert await it.find() == (status, "1" if status == 429 else "")

    seen = play(scene).seen
    assert (seen.pods(), seen.answered(status)) == ([], 2)


@pytest.mark.parametrize("status", [0, 500])
def test_an_answer_can_be_lost_although_it_is_done(status: int) -> None:
    async def scene(it: Scene) -> None:
        it.proxy.faults = (Fault(verbs=("create",), status=status, done=True),)
        assert (await it.create("a"), it.upstream.made) == (status, ["a"])
        assert (await it.find())[0] == 200

    assert play(scene).seen.pods() == ["a"]


def test_a_share_of_requests_is_about_that_share() -> None:
    async def scene(it: Scene) -> None:
        it.proxy.faults = (Fault(status=500, share=0.3), Fault(status=429, share=0.3))
        for _ in range(200):
            await it.find()

    seen = play(scene).seen
    assert 40 <= seen.answered(500) <= 80
    assert 25 <= seen.answered(429) <= 60


def test_an_answer_can_take_its_time() -> None:
    async def scene(it: Scene) -> None:
        it.proxy.faults = (Fault(status=200, seconds=0.3),)
        began = time.monotonic()
        assert (await it.find())[0] == 200
        assert time.monotonic() - began >= 0.3

    play(scene)


def test_it_can_be_away_and_come_back() -> None:
    async def scene(it: Scene) -> None:
        async with it.watch() as following:
            await asyncio.to_thread(it.proxy.go_away)
            assert await following() in ("cut", "over")
        assert await it.create("a") == 0
        await asyncio.to_thread(it.proxy.come_back)
        assert (await it.create("b"), it.upstream.made) == (201, ["b"])

    play(scene)


# Watches


def test_events_can_be_doubled_reordered_and_late() -> None:
    async def scene(it: Scene) -> None:
        watching = it.proxy.watching
        watching.doubled = True
        async with it.watch() as following:
            it.upstream.events.put_nowait(1)
            assert [await following(), await following()] == [1, 1]
            watching.doubled, watching.reordered = False, True
            for number in (2, 3, 4):
                it.upstream.events.put_nowait(number)
            assert [await following() for _ in range(3)] == [3, 2, 4]
            watching.reordered, watching.late_seconds = False, 0.2
            it.upstream.events.put_nowait(5)
            began = time.monotonic()
            assert await following() == 5
            assert time.monotonic() - began >= 0.2

    assert play(scene).watching.told == {"doubled": 1, "reordered": 1, "late": 1}


def test_a_watch_can_be_cut_and_can_be_too_old() -> None:
    async def scene(it: Scene) -> None:
        async with it.watch() as following:
            it.proxy.cut_watches()
            assert await following() in ("cut", "over")
        it.proxy.watching.gone = True
        async with it.watch() as following:
            it.proxy.cut_watches()
            assert [await following(), await following()] == [410, "over"]

    assert play(scene).watching.told == {"cut": 1, "gone": 1}


def test_a_stalled_watch_tells_nothing_until_it_goes_on_and_costs_no_time() -> None:
    async def scene(it: Scene) -> None:
        it.proxy.watching.stalled = True
        async with it.watch() as following:
            it.upstream.events.put_nowait(1)
            told, busy = asyncio.ensure_future(following()), time.process_time()
            assert not (await asyncio.wait([told], timeout=1.0))[0]
            assert time.process_time() - busy < 0.5
            it.proxy.watching.stalled = False
            assert await told == 1

    assert play(scene).watching.told["stalled"] > 0


# Logging in


def test_a_client_needs_only_the_kubeconfig_that_the_proxy_writes(tmp_path: Path) -> None:
    proxy = FaultyApi(Login("https://nowhere", {}, ssl.create_default_context()))
    proxy.start()
    try:
        written = yaml.safe_load(proxy.kubeconfig(tmp_path / "config").read_text())
        assert written["clusters"][0]["cluster"] == {"server": f"http://127.0.0.1:{proxy.port}"}
    finally:
        proxy.stop()


def test_the_login_of_a_kubeconfig_is_read(tmp_path: Path) -> None:
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://here/", "certificate-authority": "ca"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    (tmp_path / "ca").write_text(_any_authority())
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    login = login_of(tmp_path / "config")
    assert (login.server, login.headers) == ("https://here", {"Authorization": "Bearer t"})


def _any_authority() -> str:
    found = ssl.create_default_context().get_ca_certs(binary_form=True)
    if not found:
        pytest.skip("this machine trusts nobody")
    return ssl.DER_cert_to_PEM_cert(found[0])
