"""WebSocket frames as a client needs them, by hand: a load generator has to be cheaper than what it measures."""

from __future__ import annotations

from collections.abc import Iterator

TEXT, CLOSE, PING, PONG = 0x1, 0x8, 0x9, 0xA

# A client has to mask what it sends; a mask of zeros changes nothing and costs nothing.
_MASK = b"\0\0\0\0"


def encode(payload: bytes, kind: int = TEXT) -> bytes:
    """Return one masked frame."""
    size = len(payload)
    if size < 126:
        head = bytes((0x80 | kind, 0x80 | size))
    elif size < 65536:
        head = bytes((0x80 | kind, 0xFE)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x80 | kind, 0xFF)) + size.to_bytes(8, "big")
    return head + _MASK + payload


def decode(buffer: bytearray) -> Iterator[tuple[int, bytes]]:
    """Yield the kind and payload of each whole frame of a server, and take them off the buffer."""
    while len(buffer) >= 2:
        size, begin = buffer[1] & 0x7F, 2
        if size >= 126:
            begin = 4 if size == 126 else 10
            if len(buffer) < begin:
                return
            size = int.from_bytes(buffer[2:begin], "big")
        if len(buffer) < begin + size:
            return
        kind, payload = buffer[0] & 0x0F, bytes(memoryview(buffer)[begin : begin + size])
        del buffer[: begin + size]
        yield kind, payload


def upgrade(path: str, host: str, token: str) -> bytes:
    """Return the request that opens a WebSocket."""
    lines = (
        f"GET {path} HTTP/1.1",
        f"Host: {host}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        f"Authorization: Bearer {token}",
    )
    return "\r\n".join((*lines, "", "")).encode()
