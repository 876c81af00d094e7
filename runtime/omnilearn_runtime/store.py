"""Where the members of a generation leave their addresses for each other: a small store of our own. Used by `group`.

torch's TCPStore looks up the name of every peer's address, on both sides of each connection. A name server that answers
late, or not at all, would then hold up every regroup for seconds; this store knows addresses only. The one of the
member that hands out the tail answers to that, too.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Mapping
from datetime import timedelta

from torch._C._distributed_c10d import Store

from omnilearn_core.listening import stop_listening

from .ledger import Interval
from .tail import Handouts, Request
from .wire import LENGTH, LONGEST, frame, receive

_MOST_GENERATIONS = 8
"""Generations whose addresses are kept: older ones are nobody's business any more."""

_LAST_TURNS = 8


class StoreServer:
    """A worker's own store, open for its whole life: for the generations in which it is rank 0."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._listener = socket.create_server((address, 0), family=_family(address), backlog=1024)
        self.port = int(self._listener.getsockname()[1])
        self._boards: dict[str, dict[str, str]] = {}
        self._changed: dict[str, asyncio.Event] = {}
        self._handouts = Handouts()
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()
        threading.Thread(target=self._run, name="omnilearn-store", daemon=True).start()

    def close(self) -> None:
        """Stop; whoever is connected is hung up on."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._closing.set)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._talk, sock=self._listener, limit=LONGEST)
        await self._closing.wait()
        await stop_listening(server)
        # Whoever was accepted last is known, and a socket is closed, only some turns of the loop later.
        for _ in range(_LAST_TURNS):
            for writer in self._writers:
                writer.transport.abort()
            await asyncio.sleep(0)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one client until it hangs up or this store is closed; whatever is no request ends its connection."""
        self._writers.add(writer)
        try:
            while True:
                (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
                if length > LONGEST:
                    return
                board, key, value = json.loads(await reader.readexactly(length))
                answer = await self._answer(str(board), str(key), value)
                writer.write(frame(answer))
                await writer.drain()
        except (OSError, EOFError, ValueError, TypeError, asyncio.CancelledError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(self, board: str, key: str, value: object) -> Mapping[str, str] | Interval:
        """Note a value, or wait for one, and return all that is known on its board; or hand out a piece of the tail."""
        if isinstance(value, list):
            return self._handouts.take(board, Request(*map(int, value)))
        if board not in self._boards:
            self._boards[board], self._changed[board] = {}, asyncio.Event()
            for old in list(self._boards)[:-_MOST_GENERATIONS]:
                del self._boards[old]
                self._changed.pop(old).set()
        if isinstance(value, str):
            self._boards[board][key] = value
            self._changed[board].set()
            self._changed[board] = asyncio.Event()
        while key not in self._boards.get(board, {key: ""}):
            await self._changed[board].wait()
        return self._boards.get(board, {})


class StoreClient(Store):
    """A generation's part of the store of its rank 0, as gloo wants it; to be closed when the group stands."""

    def __init__(self, address: str, port: int, board: str, limit: timedelta, prefix: str = "") -> None:
        super().__init__()
        try:
            self._socket = socket.create_connection((address, port), limit.total_seconds())
        except OSError as error:
            raise RuntimeError(f"the store of rank 0 cannot be reached: {error}") from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._board, self._prefix = board, prefix
        self._known: dict[str, str] = {}
        self.set_timeout(limit)

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def set(self, key: str, value: str | bytes) -> None:
        """Leave a value."""
        raw = value.encode("latin-1") if isinstance(value, str) else bytes(value)
        self._ask(self._prefix + key, raw.hex())

    def get(self, key: str) -> bytes:
        """Return a value; waits until it is there, but not for ever."""
        whole = self._prefix + key
        if whole not in self._known:
            self._ask(whole, None)
        return bytes.fromhex(self._known[whole])

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        """Wait until the values are there."""
        del timeout  # the connection has its own, which is the same
        for key in keys:
            self.get(key)

    def set_timeout(self, timeout: timedelta) -> None:
        """Wait so long for an answer."""
        self._socket.settimeout(timeout.total_seconds())

    def has_extended_api(self) -> bool:
        """Tell torch that there is no more than this."""
        return False

    def _ask(self, key: str, value: str | None) -> None:
        try:
            self._socket.sendall(frame([self._board, key, value]))
            self._known.update(json.loads(receive(self._socket, bytearray())))
        except (OSError, ValueError) as error:
            raise RuntimeError(f"the store of rank 0 did not answer: {error}") from None
        if key not in self._known:
            raise RuntimeError("the store of rank 0 has forgotten this generation")


def _family(address: str) -> socket.AddressFamily:
    return socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)[0][0]
