"""A proxy in front of a real API server that fails on command: for tests of whoever talks to it.

It listens on loopback without TLS and logs in upstream by itself, so a client's kubeconfig needs an address only.
`Fault` says what becomes of requests, `Watching` what becomes of watches. What the API server has really done is noted.
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import yaml
from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, web

from faulty_watches import Watching, forward
from kube_login import Login, login_of
from omnilearn_core.listening import stop_listening

Made = TypeVar("Made")

_START_SECONDS = 10.0
_LONGEST_EVENT = 2**21
_DROPPED = {"host", "connection", "authorization", "content-length", "transfer-encoding", "accept-encoding"}


class Asked(NamedTuple):
    """A request in the API's own terms."""

    verb: str
    """get, list, watch, create, try (a dry run), patch, status, delete."""

    resource: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """What becomes of a share of some requests; of all if neither verbs nor resources are named."""

    verbs: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    status: int = 0
    """The answer; 0: none, the connection is cut."""

    share: float = 1.0
    seconds: float = 0.0
    """How long it takes. A fault that only takes time has status 200."""

    done: bool = False
    """The API server does it all the same, and only the answer is lost."""

    def is_about(self, asked: Asked) -> bool:
        """Tell whether a request may meet this fault."""
        return (not self.verbs or asked.verb in self.verbs) and (not self.resources or asked.resource in self.resources)


@dataclass
class Seen:
    """What was asked, and what the API server has done."""

    asked: list[tuple[Asked, int]] = field(default_factory=list)
    """Every request with the status that the client got; 0 if it got none."""

    created: list[tuple[str, str]] = field(default_factory=list)
    """Resource and name of everything that was really created."""

    def count(self, verb: str, resource: str) -> int:
        """Return how often something was asked."""
        return sum(each.verb == verb and each.resource == resource for each, _ in self.asked)

    def answered(self, *statuses: int) -> int:
        """Return how many requests had one of these answers; 0 is none at all."""
        return sum(status in statuses for _, status in self.asked)

    def pods(self) -> list[str]:
        """Return the names of the pods that were really created, in order."""
        return [name for resource, name in self.created if resource == "pods"]


def asked_of(method: str, path: str, query: dict[str, str]) -> Asked:
    """Return what a request asks for."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]  # /api/v1, /apis/group/version
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    resource, name, sub = (*parts, "", "", "")[:3]
    verbs = {"POST": "try" if "dryRun" in query else "create", "PATCH": "patch", "PUT": "patch", "DELETE": "delete"}
    verb = verbs.get(method) or ("watch" if query.get("watch") in ("true", "1") else "get" if name else "list")
    return Asked(sub if verb == "patch" and sub == "status" else verb, resource, name)


class FaultyApi:
    """The proxy. Faults may be changed at any time, from any thread."""

    def __init__(self, login: Login, seed: int = 0) -> None:
        self._login, self._random = login, random.Random(seed)
        self.faults: tuple[Fault, ...] = ()
        self.watching = Watching()
        self.seen = Seen()
        self.port = 0
        self._runner: web.AppRunner | None = None
        self._server: asyncio.Server | None = None
        self._upstream: ClientSession | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="faulty-api", daemon=True)

    def go_away(self) -> None:
        """Refuse connections, and cut those that there are."""
        self._wait(self._close())

    def come_back(self) -> None:
        """Listen again, at the same port."""
        self._wait(self._listen())

    def cut_watches(self) -> None:
        """Cut all watches; clients may begin new ones."""
        self.watching.cut += 1

    def kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig for clients."""
        cluster = {"name": "faulty", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}
        context = {"name": "faulty", "context": {"cluster": "faulty", "user": "faulty"}}
        user = {"name": "faulty", "user": {"token": "none-is-needed"}}
        whole = {"apiVersion": "v1", "kind": "Config", "current-context": "faulty"}
        path.write_text(yaml.safe_dump(whole | {"clusters": [cluster], "contexts": [context], "users": [user]}))
        return path

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()
        self._wait(self._listen())

    def stop(self) -> None:
        """End."""
        self._wait(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_START_SECONDS)
        self._loop.close()

    def _wait(self, do: Coroutine[Any, Any, Made]) -> Made:
        return asyncio.run_coroutine_threadsafe(do, self._loop).result(_START_SECONDS)

    async def _listen(self) -> None:
        if self._runner is not None:
            return
        self._upstream = ClientSession(
            headers=self._login.headers,
            timeout=ClientTimeout(total=None),
            auto_decompress=False,
            read_bufsize=_LONGEST_EVENT,
        )
        app = web.Application(client_max_size=16 * 2**20)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        assert self._runner.server is not None
        self._server = await self._loop.create_server(self._runner.server, "127.0.0.1", self.port)
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def _close(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None and self._server is not None:
            self.watching.cut += 1
            await stop_listening(self._server)
            await runner.cleanup()
        if self._upstream is not None:
            await self._upstream.close()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        asked = asked_of(request.method, request.path, dict(request.query))
        body = await request.read()
        fault = self._fault(asked)
        if fault is not None:
            await asyncio.sleep(fault.seconds)
            if not fault.done and fault.status != 200:
                return self._fail(request, asked, fault)
        try:
            async with self._call(request, body) as answer:
                if asked.verb == "watch" and answer.status == 200:
                    self.seen.asked.append((asked, 200))
                    return await forward(request, answer, self.watching)
                data = await answer.read()
        except ClientError:
            return self._fail(request, asked, Fault(status=502))
        if answer.status == 201 and asked.verb == "create":
            self.seen.created.append((asked.resource, _name_in(data)))
        if fault is not None and fault.done:
            return self._fail(request, asked, fault)
        self.seen.asked.append((asked, answer.status))
        return web.Response(body=data, status=answer.status, headers=_kept(answer))

    def _call(self, request: web.Request, body: bytes) -> Any:
        assert self._upstream is not None
        headers = {key: value for key, value in request.headers.items() if key.lower() not in _DROPPED}
        url = self._login.server + request.path_qs
        return self._upstream.request(request.method, url, data=body or None, headers=headers, ssl=self._login.tls)

    def _fault(self, asked: Asked) -> Fault | None:
        for fault in self.faults:
            if fault.is_about(asked) and self._random.random() < fault.share:
                return fault
        return None

    def _fail(self, request: web.Request, asked: Asked, fault: Fault) -> web.Response:
        self.seen.asked.append((asked, fault.status))
        if fault.status == 0:
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        headers = {"Retry-After": "1"} if fault.status == 429 else {}
        return web.json_response(_status(fault.status), status=fault.status, headers=headers)


def _name_in(data: bytes) -> str:
    return str(json.loads(data).get("metadata", {}).get("name", ""))


def _kept(answer: ClientResponse) -> dict[str, str]:
    return {key: value for key, value in answer.headers.items() if key.lower() in ("content-type", "retry-after")}


def _status(code: int) -> dict[str, Any]:
    reasons = {409: "Conflict", 410: "Expired", 429: "TooManyRequests"}
    reason = reasons.get(code, "InternalError")
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": f"{reason}: this is a test",
    }


@contextmanager
def faulty(kubeconfig: Path) -> Iterator[FaultyApi]:
    """Run a proxy in front of the API server of a kubeconfig."""
    made = FaultyApi(login_of(kubeconfig))
    made.start()
    try:
        yield made
    finally:
        made.stop()
