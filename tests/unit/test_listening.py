"""A server that stops listening loses nobody's socket, whenever it stops."""

from __future__ import annotations

import asyncio
import gc
import socket
import warnings

import pytest

from omnilearn_core.listening import stop_listening


async def _stop_after(turns: int) -> None:
    """Stop a server so many turns of the loop after somebody has connected, and hang up on whoever is there."""
    here: list[asyncio.BaseTransport] = []

    class Visitor(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            here.append(transport)

    server = await asyncio.get_running_loop().create_server(Visitor, "127.0.0.1", 0)
    with socket.create_connection(server.sockets[0].getsockname()):
        for _ in range(turns):
            await asyncio.sleep(0)
        await stop_listening(server)
        for transport in here:
            transport.close()


@pytest.mark.parametrize("turns", range(8))
def test_whoever_was_accepted_just_before_is_known_and_hung_up_on(turns: int) -> None:
    gc.collect()  # what others have left
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        asyncio.run(_stop_after(turns))
        gc.collect()
    assert [str(each.message) for each in told if each.category is ResourceWarning] == []
