"""The server that workers connect to: whoever says nothing, or nonsense, is shown out, and costs the others nothing."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable

from aiohttp import web

from omnilearn_core.listening import stop_listening

from .refusals import Refusal, RefusedRequest, refuse

# How long somebody may take to ask for something, and for TLS before that
_ASK_SECONDS = 10.0
_MOST_WAITING = 1024
# When an operator is replaced, all workers of all jobs come at once. They are let in a few at a time, first come, first
# served: if thousands were greeted at once, each would take so long that it has given up before it is its turn.
_BACKLOG, _AT_ONCE = 4096, 16
_LAST_TURNS = 8

Count = Callable[[Refusal, str], None]
"""What is told of a refusal."""

_SENTENCES = {
    404: "there is nothing here: ask for the WebSocket of a worker, as docs/protocol.md says",
    405: "only GET is answered here: ask for the WebSocket of a worker, as docs/protocol.md says",
}
_TOO_SLOW = "nothing was asked for in time: send the request at once"
_TOO_MANY = "there are too many connections from this address that ask for nothing: close some"
_NO_WEBSOCKET = "the request is not one for a WebSocket: send the headers of RFC 6455"
_NO_HTTP = "the request is not HTTP as it is spoken here: send a GET with short headers"


class Visitor(web.RequestHandler):
    """One TCP connection; until it has asked for something, it waits in the lobby."""

    __slots__ = ("_reception",)

    def __init__(self, reception: Reception, server: web.Server, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type] # as AppRunner allows
            keepalive_timeout=3.0 * reception.ask_seconds,
        )
        self._reception = reception

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let somebody in."""
        super().connection_made(transport)
        self._reception.enter(self, str((transport.get_extra_info("peername") or ("",))[0]))

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget somebody who is gone."""
        self._reception.leave(self)
        self._reception.here.discard(self)
        super().connection_lost(exc)

    def hang_up(self) -> None:
        """Cut the connection."""
        if isinstance(self.transport, asyncio.Transport):
            self.transport.abort()

    def show_out(self, status: str, sentence: str) -> None:
        """Say why, and hang up."""
        body = json.dumps({"sentence": sentence})
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close"
        )
        if self.transport is not None:
            self.transport.write(f"{head}\r\n\r\n{body}".encode())
        self.force_close()

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer what is not HTTP in a sentence. aiohttp would write a traceback into the log for each."""
        if status >= 500:
            return super().handle_error(request, status, exc, message)
        self._reception.count(Refusal.HTTP, _NO_HTTP)
        answer = web.json_response({"sentence": _NO_HTTP}, status=status)
        answer.force_close()
        return answer


class Reception:
    """Listens. Who asks for nothing has to go after a while, and sooner if they are many: the oldest of the busiest."""

    def __init__(self, app: web.Application, count: Count, *, ask_seconds: float = _ASK_SECONDS) -> None:
        self.count, self.ask_seconds = count, ask_seconds
        self._waiting: dict[Visitor, tuple[str, asyncio.TimerHandle]] = {}
        self.here: set[Visitor] = set()
        app.middlewares.append(self._in_words)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        self._listening: asyncio.Server | None = None

    async def start(self, host: str | None, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Serve; return the port, which the system chooses if it is 0."""
        await self._runner.setup()
        server, loop = self._runner.server, asyncio.get_running_loop()
        if server is None:
            raise RuntimeError("the application was not set up")
        seconds = None if tls is None else self.ask_seconds
        try:
            listener = _listener(host, port)
            self._listening = await loop.create_server(
                lambda: Visitor(self, server, loop),
                sock=listener,
                ssl=tls,
                ssl_handshake_timeout=seconds,
                backlog=_AT_ONCE,
            )
            # asyncio takes one number for how many it accepts at once and for how many may wait.
            listener.listen(_BACKLOG)
        except OSError:
            await self._runner.cleanup()
            raise
        return int(listener.getsockname()[1])

    async def close(self) -> None:
        """Stop listening, and end what is open."""
        if self._listening is not None:
            await stop_listening(self._listening)
        await self._runner.cleanup()
        # Whoever was accepted last is known, and a socket is closed, only some turns of the loop later.
        for _ in range(_LAST_TURNS):
            for visitor in tuple(self.here):
                visitor.hang_up()
            await asyncio.sleep(0)

    def enter(self, visitor: Visitor, address: str) -> None:
        """Let somebody wait."""
        self.here.add(visitor)
        timer = asyncio.get_running_loop().call_later(
            self.ask_seconds, self._show_out, visitor, "408 Request Timeout", _TOO_SLOW
        )
        self._waiting[visitor] = address, timer
        if len(self._waiting) > _MOST_WAITING:
            busiest = Counter(of for of, _ in self._waiting.values()).most_common(1)[0][0]
            oldest = next(each for each, (of, _) in self._waiting.items() if of == busiest)
            self._show_out(oldest, "429 Too Many Requests", _TOO_MANY)

    def leave(self, visitor: object) -> None:
        """Note that somebody waits no longer."""
        if isinstance(visitor, Visitor) and visitor in self._waiting:
            self._waiting.pop(visitor)[1].cancel()

    def _show_out(self, visitor: Visitor, status: str, sentence: str) -> None:
        self.leave(visitor)
        self.count(Refusal.HANDSHAKE, sentence)
        visitor.show_out(status, sentence)

    @web.middleware
    async def _in_words(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Answer in a sentence what the router or the handshake of a WebSocket refuses."""
        self.leave(request.protocol)
        try:
            return await handler(request)
        except RefusedRequest:
            raise
        except web.HTTPClientError as error:
            sentence = _SENTENCES.get(error.status, _NO_WEBSOCKET)
            self.count(Refusal.HTTP, sentence)
            raise refuse(error.status, sentence, Refusal.HTTP) from None


def _listener(host: str | None, port: int) -> socket.socket:
    """Return a socket that listens on one address, or on all."""
    if host is None:
        both = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if both else socket.AF_INET
        return socket.create_server(("", port), family=family, dualstack_ipv6=both)
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    return socket.create_server((host, port), family=family)
