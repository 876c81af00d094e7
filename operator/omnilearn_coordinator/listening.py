"""What workers say: heard, understood or refused, and never more of it than leaves time for the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import WSMsgType

from omnilearn_core.api.frames import to_frame
from omnilearn_core.api.messages import Refused, WorkerReport

from . import limits
from .connection import Connection
from .driver import Driver
from .refusals import BadFrameError, Refusal, Refusals, parse

_MOST_BAD_FRAMES = 20
# Meanwhile nobody would see that the connection has ended.
_LONGEST_PAUSE_SECONDS = 2.0
_NOT_UNDERSTOOD = "too much of what was said here was not understood: see docs/protocol.md"


class Listener:
    """Listens to the workers of a job, to each connection in a task of its own."""

    def __init__(
        self,
        driver: Driver,
        refusals: Refusals,
        news: Callable[[], None],
        clock: Callable[[], float],
        heard: limits.Allowance,
    ) -> None:
        self._driver, self._refusals, self._news, self._clock, self._heard = driver, refusals, news, clock, heard
        self.reports = 0
        """How many reports were taken in."""

        self.holds_back = True
        """Those who say too much are held back."""

    async def listen(self, connection: Connection) -> None:
        """Take in what a worker says until its connection ends."""
        async for message in connection.socket:
            match message.type:
                case WSMsgType.ERROR:
                    # Too large, or not a WebSocket's frame: aiohttp has closed the connection with a code that says so.
                    self._refusals.count(Refusal.FRAME, f"{connection.identity.worker}: {message.data}")
                    return
                case WSMsgType.TEXT:
                    self._take(connection, message.data)
                case WSMsgType.BINARY:
                    self._refuse(connection, Refusal.MESSAGE, "the frame is not text: send one JSON object per frame")
                case WSMsgType.PING:
                    await connection.socket.pong(message.data)
                case _:
                    pass  # an answer to our own ping
            if connection.bad_frames >= _MOST_BAD_FRAMES:
                await connection.hang_up(_NOT_UNDERSTOOD)
                return
            await self._hold_back(connection, len(message.data or ""))

    async def _hold_back(self, connection: Connection, size: int) -> None:
        """Hear nothing for a while if a worker, or its job as a whole, says more than it should."""
        now, cost = self._clock(), limits.cost_of(size)
        pause = max(connection.heard.owe(now, cost), self._heard.owe(now, cost))
        if pause <= 0.0 or not self.holds_back:
            return
        sentence = f"{connection.identity.worker} says too much: it is heard more slowly, so that others are heard, too"
        self._refusals.count(Refusal.RATE, sentence)
        if not connection.held_back:
            connection.held_back = True
            connection.send(to_frame(Refused(status=429, sentence=sentence)))
        await asyncio.sleep(min(pause, _LONGEST_PAUSE_SECONDS))

    def _take(self, connection: Connection, frame: str) -> None:
        worker = connection.identity.worker
        try:
            message = parse(frame)
        except BadFrameError as error:
            self._refuse(connection, Refusal.MESSAGE, str(error))
            return
        if isinstance(message, WorkerReport) and message.worker != worker:
            sentence = f"{worker} cannot report for {message.worker}: a worker can speak only for itself"
            self._refuse(connection, Refusal.WORKER, sentence)
            return
        self.reports += isinstance(message, WorkerReport)
        if self._driver.said(worker, connection.number, message, self._clock()):
            self._news()

    def _refuse(self, connection: Connection, kind: Refusal, sentence: str) -> None:
        self._refusals.count(kind, sentence)
        connection.bad_frames += 1
        status = 403 if kind is Refusal.WORKER else 400
        connection.send(to_frame(Refused(status=status, sentence=sentence)))
