"""The operator's servers for metrics and health; workers have one of their own, the coordinator's Reception."""

from __future__ import annotations

import resource
import time
from asyncio import sslproto
from collections.abc import Callable

from aiohttp import web

from .metrics import OperatorMetrics

_LONGEST_STANDSTILL = 60.0

_TLS_BUFFER = 4 * 1024


def make_room() -> None:
    """Let this process have as many connections as it may, and each of them take no more memory than it needs.

    Many containers begin with room for 1024 files. asyncio gives every TLS connection a buffer of 256 KiB, and takes as
    much again for every message; what workers say is mostly shorter than one page of memory.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hasattr(sslproto.SSLProtocol, "max_size"):
        sslproto.SSLProtocol.max_size = _TLS_BUFFER


class Servers:
    """What listens; close it at the end."""

    def __init__(self) -> None:
        self._runners: list[web.AppRunner] = []

    async def serve(self, app: web.Application, port: int) -> int:
        """Serve an application on all addresses; return the port, which the system chooses if it is 0."""
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        self._runners.append(runner)
        await web.TCPSite(runner, None, port).start()
        return int(runner.addresses[0][1])

    async def close(self) -> None:
        """Stop listening."""
        for runner in self._runners:
            await runner.cleanup()


def metrics_app(metrics: OperatorMetrics) -> web.Application:
    """Return the application that Prometheus asks: for everything, or for what has no job's name in it."""
    headers = {"Content-Type": "text/plain; version=0.0.4"}

    async def serve(_: web.Request) -> web.Response:
        return web.Response(body=await metrics.text(), headers=headers)

    async def serve_own(_: web.Request) -> web.Response:
        return web.Response(body=metrics.own_text(), headers=headers)

    app = web.Application()
    app.router.add_get("/metrics", serve)
    app.router.add_get("/metrics/operator", serve_own)
    return app


def health_app(looked: Callable[[], float], ready: Callable[[], str]) -> web.Application:
    """Return the application that the kubelet asks: whether the loop goes round, and whether workers may come."""

    async def live(_: web.Request) -> web.Response:
        age = time.monotonic() - looked()
        status = 200 if age < _LONGEST_STANDSTILL else 500
        return web.json_response({"secondsSinceTheLastLook": round(age, 1)}, status=status)

    async def serves(_: web.Request) -> web.Response:
        missing = ready()
        return web.json_response({"waitingFor": missing}, status=503 if missing else 200)

    app = web.Application()
    app.router.add_get("/healthz", live)
    app.router.add_get("/readyz", serves)
    return app
