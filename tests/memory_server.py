"""An API server in memory, by HTTP: lists, watches, patches. For tests of programs that need one and no nodes."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, TypeVar

from aiohttp import web

from faulty_api import Asked, asked_of
from histories.clock import Clock
from histories.store import Change, Store
from omnilearn_core.api import names
from omnilearn_core.listening import stop_listening
from omnilearn_operator.api import ApiError, Manifest

Made = TypeVar("Made")

_LIMIT_SECONDS = 10.0
_KINDS = {
    "namespaces": "Namespace",
    "pods": "Pod",
    "services": "Service",
    "events": "Event",
    "secrets": "Secret",
    "networkpolicies": "NetworkPolicy",
    "leases": "Lease",
    names.PLURAL: names.KIND,
}
_VERBS = ["create", "delete", "get", "list", "patch", "watch"]


class MemoryServer:
    """Listens at a port of loopback. Its objects are those of one namespace."""

    def __init__(self) -> None:
        self.port = 0
        self._store = Store(Clock())
        self._changes: list[tuple[str, Change]] = []
        self._store.listeners.append(lambda kind, change: self._changes.append((kind, change)))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="memory-server", daemon=True)
        self._runner: web.AppRunner | None = None
        self._server: asyncio.Server | None = None

    def do(self, act: Callable[[Store], Made]) -> Made:
        """Do something to the objects, as a user or a node would; return a copy of what comes of it."""

        async def acting() -> Made:
            return deepcopy(act(self._store))

        return self._wait(acting())

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()
        self._wait(self._listen())

    def stop(self) -> None:
        """End."""
        self._wait(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_LIMIT_SECONDS)
        self._loop.close()

    def _wait(self, do: Coroutine[Any, Any, Made]) -> Made:
        return asyncio.run_coroutine_threadsafe(do, self._loop).result(_LIMIT_SECONDS)

    async def _listen(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        assert self._runner.server is not None
        self._server = await self._loop.create_server(self._runner.server, "127.0.0.1", 0)
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def _close(self) -> None:
        assert self._runner is not None
        assert self._server is not None
        await stop_listening(self._server)
        await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        asked = asked_of(request.method, request.path, dict(request.query))
        if not asked.resource:
            return web.json_response(_discovered(request.path))
        try:
            if asked.verb == "watch":
                return await self._watch(request, _KINDS[asked.resource])
            body = json.loads(await request.read() or b"{}")
            made = self._call(asked, body, dict(request.query), request.content_type)
        except ApiError as error:
            status = {"kind": "Status", "code": error.status, "reason": error.reason, "message": error.sentence}
            return web.json_response(status, status=error.status)
        return web.json_response(made, status=201 if asked.verb in ("create", "try") else 200)

    def _call(self, asked: Asked, body: Manifest, query: dict[str, str], content: str) -> Manifest:
        kind, store = _KINDS[asked.resource], self._store
        match asked.verb:
            case "get":
                return store.get(kind, asked.name)
            case "list":
                items = store.every(kind, query.get("labelSelector", ""))
                return {"kind": f"{kind}List", "metadata": {"resourceVersion": str(store.version)}, "items": items}
            case "create" | "try":
                return store.create(body, dry_run=asked.verb == "try")
            case "delete":
                store.delete(kind, asked.name, body.get("preconditions", {}).get("uid", ""))
                return {"kind": "Status", "status": "Success"}
            case _:
                return body if "apply" in content else store.merge(kind, asked.name, body)

    async def _watch(self, request: web.Request, kind: str) -> web.StreamResponse:
        """Tell of all changes after a version, for ever."""
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        since, told = int(request.query.get("resourceVersion") or self._store.version), 0
        while True:
            for what, change in self._changes[told:]:
                if what == kind and int(change.object["metadata"]["resourceVersion"]) > since:
                    await response.write(json.dumps(change._asdict()).encode() + b"\n")
                told += 1
            await asyncio.sleep(0.02)


def _discovered(path: str) -> Manifest:
    """Return what there is to be asked for."""
    match path.strip("/").split("/"):
        case ["api"]:
            return {"versions": ["v1"]}
        case ["apis"]:
            version = {"groupVersion": names.API_VERSION, "version": names.VERSION}
            return {"groups": [{"name": names.GROUP, "versions": [version], "preferredVersion": version}]}
        case parts:
            ours = parts[0] == "apis"
            found = {plural: kind for plural, kind in _KINDS.items() if (plural == names.PLURAL) == ours}
            return {"resources": [_resource(plural, kind) for plural, kind in found.items()]}


def _resource(plural: str, kind: str) -> Manifest:
    return {"name": plural, "singularName": "", "kind": kind, "namespaced": kind != "Namespace", "verbs": _VERBS}


@contextmanager
def memory_server() -> Iterator[MemoryServer]:
    """Run one."""
    made = MemoryServer()
    made.start()
    try:
        yield made
    finally:
        made.stop()
