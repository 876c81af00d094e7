"""One worker's WebSocket on the coordinator's side. Sending never waits: a peer that does not read is dropped."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field

from aiohttp import WSCloseCode, web

from . import limits
from .credentials import Identity

# What a peer may leave unread before it is dropped.
_MOST_FRAMES = 256
_MOST_CHARACTERS = 32 * 2**20

_GOODBYE_SECONDS = 1.0
# What fits into a closing frame
_LONGEST_REASON = 120


@dataclass(eq=False)
class Connection:
    """A connection with its queue of frames; `write` runs as a task of its own."""

    number: int
    identity: Identity
    socket: web.WebSocketResponse
    transport: asyncio.Transport | None
    heard: limits.Allowance
    """What may be heard of it."""

    bad_frames: int = 0
    held_back: bool = False
    """It was told that it says too much."""

    _frames: asyncio.Queue[str | None] = field(default_factory=asyncio.Queue)
    _waiting: int = 0

    def send(self, frame: str) -> None:
        """Queue a frame; drop the connection if too much is waiting."""
        self._waiting += len(frame)
        if self._frames.qsize() >= _MOST_FRAMES or self._waiting > _MOST_CHARACTERS:
            self.drop()
            return
        self._frames.put_nowait(frame)

    def finish(self) -> None:
        """Close the connection after what is queued."""
        self._frames.put_nowait(None)

    def drop(self) -> None:
        """Close the connection at once, without a goodbye."""
        if self.transport is not None:
            self.transport.abort()

    async def hang_up(self, sentence: str) -> None:
        """Close the connection because of what was said on it."""
        with contextlib.suppress(ConnectionError, TimeoutError, RuntimeError):
            async with asyncio.timeout(_GOODBYE_SECONDS):
                await self.socket.close(code=WSCloseCode.POLICY_VIOLATION, message=sentence.encode()[:_LONGEST_REASON])

    async def write(self) -> None:
        """Send what is queued until the connection ends."""
        try:
            while (frame := await self._frames.get()) is not None:
                await self.socket.send_str(frame)
                self._waiting -= len(frame)
            async with asyncio.timeout(_GOODBYE_SECONDS):
                await self.socket.close()
        except (ConnectionError, TimeoutError, RuntimeError):
            pass  # whoever reads from it sees that it is gone
        self.drop()
