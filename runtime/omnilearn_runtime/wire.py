"""Frames between workers: a length, then JSON. Used by `store` and `tail`."""

from __future__ import annotations

import json
import socket
import struct

LENGTH = struct.Struct("!I")
LONGEST = 16 * 2**20


def frame(value: object) -> bytes:
    """Return a value as a frame."""
    body = json.dumps(value).encode()
    return LENGTH.pack(len(body)) + body


def receive(connection: socket.socket, data: bytearray) -> bytes:
    """Return the body of the next frame; ``data`` keeps what has come if a timeout interrupts, for the next call."""
    while (missing := _missing(data)) > 0:
        chunk = connection.recv(missing)
        if not chunk:
            raise ConnectionError("it hung up")
        data += chunk
    return bytes(data[LENGTH.size :])


def _missing(data: bytearray) -> int:
    if len(data) < LENGTH.size:
        return LENGTH.size - len(data)
    (length,) = LENGTH.unpack_from(data)
    if length > LONGEST:
        raise ValueError("an answer that is too long")
    return LENGTH.size + int(length) - len(data)
