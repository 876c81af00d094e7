"""What workers and the server say to each other: a fixed header, a little JSON, and numbers as raw bytes.

Bodies are received into buffers that exist already and are as long as they have to be; whoever sends anything else is
hung up on. There is no pickle. One question, one answer, on a connection that a worker keeps. A body is one system call
where it can be: the kernel waits, with a limit, and Python's lock is free meanwhile.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

_HEADER = struct.Struct("<4sBxxxIQ")  # magic, kind, bytes of JSON, bytes of the body
_MAGIC = b"OLA1"
_LONGEST_TEXT = 4 * 2**20
_TIMEVAL = struct.Struct("@ll")
_MOST_PARTS = 512  # of one system call; Linux takes 1024


class Kind(IntEnum):
    """What a message is."""

    HELLO = 1
    """A worker names itself and the generation that it wants to enter."""

    ASK = 2
    """It wants samples, or to know what became of its gradient."""

    PUSH = 3
    """It sends a gradient."""

    LEAVE = 4
    """It has left the pass before its end, and waits for the others."""

    STANDBY = 5
    """It wants the state, to be able to go on with it should the server be lost."""

    WORK = 16
    """Samples, and the parameters to compute with."""

    WAIT = 17
    """There is nothing to say yet: ask again."""

    MEET = 18
    """All members meet for a roll call, in the generation that is named."""

    STATE = 19
    """The server trains; here is its state, if it differs from what the worker holds."""

    GONE = 20
    """The worker is not known here, or has come too late: it has to begin with a HELLO."""

    UNLIKE = 21
    """The worker cannot take part, for the reason that is given."""


class BadFrameError(ConnectionError):
    """Something that is no message of this protocol, or not the one that was expected."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A message without its body, which lies in a buffer."""

    kind: Kind
    text: dict[str, Any]
    size: int = 0


def prepare(connection: socket.socket, seconds: float) -> None:
    """Have the kernel wait for this connection, no longer than so many seconds at a time.

    With a timeout of Python's own there is a poll before every call, and a call for every piece that has come.
    """
    connection.setblocking(True)
    limit = _TIMEVAL.pack(int(seconds), int(seconds % 1 * 1e6))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    if connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def send(
    connection: socket.socket,
    kind: Kind,
    text: dict[str, Any],
    body: Sequence[memoryview] = (),
    check: Callable[[], None] = lambda: None,
) -> None:
    """Send a message over a connection that is prepared; ``check`` is called whenever not all could be sent in time."""
    words = json.dumps(text, separators=(",", ":")).encode()
    size = sum(len(part) for part in body)
    head = _HEADER.pack(_MAGIC, kind, len(words), size) + words
    parts = [memoryview(head), *body]
    while parts:
        try:
            sent = connection.sendmsg(parts[:_MOST_PARTS])
        except BlockingIOError:
            sent = 0
        parts = _after(parts, sent)
        if parts:
            check()


def receive(
    connection: socket.socket,
    into: Callable[[Kind, dict[str, Any], int], Sequence[memoryview]],
    check: Callable[[], None],
) -> Frame:
    """Return the next message; its body is written to what ``into`` returns, which has to be just as long.

    ``check`` is called whenever not all has come in time; it raises if there is no use in waiting.
    """
    head = bytearray(_HEADER.size)
    _fill(connection, memoryview(head), check)
    magic, kind, length, size = _HEADER.unpack(head)
    if magic != _MAGIC or length > _LONGEST_TEXT or kind not in Kind.__members__.values():
        raise BadFrameError("what came is no message of this protocol")
    words = bytearray(length)
    _fill(connection, memoryview(words), check)
    try:
        text = json.loads(words)
    except ValueError:
        text = None
    if not isinstance(text, dict):
        raise BadFrameError("a message whose text is not JSON")
    places = into(Kind(kind), text, size) if size else ()
    if sum(len(place) for place in places) != size:
        raise BadFrameError(f"a body of {size} bytes where another length was expected")
    for place in places:
        _fill(connection, place, check)
    return Frame(Kind(kind), text, size)


def _after(parts: list[memoryview], sent: int) -> list[memoryview]:
    """Return what is left of some parts after so many bytes."""
    for number, part in enumerate(parts):
        if sent < len(part):
            return [part[sent:], *parts[number + 1 :]]
        sent -= len(part)
    return []


def _fill(connection: socket.socket, place: memoryview, check: Callable[[], None]) -> None:
    at = 0
    while at < len(place):
        try:
            count = connection.recv_into(place[at:], len(place) - at, socket.MSG_WAITALL)
        except BlockingIOError:
            check()
            continue
        if not count:
            raise ConnectionError("it hung up")
        at += count
        if at < len(place):
            check()
