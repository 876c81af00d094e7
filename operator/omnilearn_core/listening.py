"""How a server stops listening. Used by the coordinator and by the runtime's store."""

from __future__ import annotations

import asyncio

_TURNS = 4
"""Turns of the loop until one that was accepted is known: for its task, its transport, its protocol."""


async def stop_listening(server: asyncio.Server) -> None:
    """Accept nobody more, then close the server.

    The other order loses sockets: CPython 3.11 makes no transport for whoever was accepted just before `close`, and
    leaves the connection open until garbage is collected.
    """
    loop = asyncio.get_running_loop()
    for listener in server.sockets:
        loop.remove_reader(listener.fileno())
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    server.close()
