"""What becomes of the events of a watch on its way through the faulty proxy."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

from aiohttp import ClientError, ClientResponse, web

_LOOK_SECONDS = 0.1
# How long an event waits for another that it could come after
_HELD_SECONDS = 0.5


@dataclass
class Watching:
    """How watches fare now. Changes take effect on running ones."""

    cut: int = 0
    """Raised by one: all watches that there are end."""

    gone: bool = False
    """Watches that are cut end by saying that the version is too old (410)."""

    stalled: bool = False
    """Nothing arrives, and nobody is told."""

    late_seconds: float = 0.0
    """Every event takes so long, one after the other."""

    doubled: bool = False
    reordered: bool = False
    """Of two events that follow each other closely, the second comes first."""

    told: Counter[str] = field(default_factory=Counter)
    """How often which of this has really happened."""


async def forward(request: web.Request, answer: ClientResponse, watching: Watching) -> web.StreamResponse:
    """Send on a watch, event by event, until it is cut or ends."""
    begun = watching.cut
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    with suppress(ClientError, ConnectionError):  # either side has gone
        await _relay(response, answer, watching, begun)
        if watching.gone:
            await response.write(_GONE)
            watching.told["gone"] += 1
            return response
    if request.transport is not None and watching.cut != begun:
        watching.told["cut"] += 1
        request.transport.abort()
    return response


async def _relay(response: web.StreamResponse, answer: ClientResponse, watching: Watching, begun: int) -> None:
    held, waited = b"", 0.0
    reading: asyncio.Task[bytes] | None = None
    try:
        while watching.cut == begun:
            reading = reading or asyncio.ensure_future(answer.content.readline())
            done, _ = await asyncio.wait([reading], timeout=_LOOK_SECONDS)
            waited += _LOOK_SECONDS
            if watching.stalled:
                watching.told["stalled"] += bool(done)
                await asyncio.sleep(_LOOK_SECONDS)  # what has arrived would end every wait at once
                continue
            if done:
                line, reading, waited = reading.result(), None, 0.0
                if not line:
                    return
                held = await _send(response, line, held, watching)
            elif held and waited >= _HELD_SECONDS:
                await response.write(held)
                held = b""
    finally:
        if reading is not None:
            reading.cancel()
            with suppress(asyncio.CancelledError, ClientError):
                await reading


async def _send(response: web.StreamResponse, line: bytes, held: bytes, watching: Watching) -> bytes:
    """Send an event; return what is held back instead."""
    if watching.late_seconds:
        await asyncio.sleep(watching.late_seconds)
        watching.told["late"] += 1
    if watching.reordered and not held:
        return line
    await response.write(line)
    if watching.doubled:
        await response.write(line)
        watching.told["doubled"] += 1
    if held:
        await response.write(held)
        watching.told["reordered"] += 1
    return b""


_GONE = (
    json.dumps(
        {
            "type": "ERROR",
            "object": {"kind": "Status", "apiVersion": "v1", "code": 410, "reason": "Expired", "message": "too old"},
        }
    ).encode()
    + b"\n"
)
