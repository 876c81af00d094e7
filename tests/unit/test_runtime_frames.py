"""Messages between workers and a server, over a connection that the kernel waits for."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from omnilearn_runtime.asynchronous.frames import BadFrameError, Kind, prepare, receive, send

LIMIT = 0.02


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    for each in (one, other):
        prepare(each, LIMIT)
    yield one, other
    one.close()
    other.close()


class Sink(socket.socket):
    """Keeps what is sent, however much it is."""

    sent = b""

    def sendmsg(self, buffers: Any, *_: Any) -> int:
        before = len(self.sent)
        self.sent += b"".join(buffers)
        return len(self.sent) - before


def message(body: bytes) -> bytes:
    """Return a message as it is on the wire."""
    with Sink() as sink:
        send(sink, Kind.WORK, {"lease": 1}, [memoryview(body)])
        return sink.sent


def test_a_body_that_comes_in_pieces_is_waited_for_with_a_look_in_between(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    here, there = pair
    body, looks = bytes(range(256)) * 4096, threading.Semaphore(0)
    place = bytearray(len(body))
    whole = message(body)
    prepare(there, 10.0)

    def slowly() -> None:
        for part in (whole[:700_000], whole[700_000:]):
            assert looks.acquire(timeout=10.0)
            there.sendall(part)

    threading.Thread(target=slowly, daemon=True).start()
    frame = receive(here, lambda *_: [memoryview(place)], looks.release)
    assert (frame.kind, frame.text, frame.size) == (Kind.WORK, {"lease": 1}, len(body))
    assert bytes(place) == body


def test_what_nobody_reads_is_sent_as_soon_as_somebody_does(pair: tuple[socket.socket, socket.socket]) -> None:
    here, there = pair
    parts = [memoryview(bytes([number]) * 200_000) for number in range(5)]
    places = [bytearray(200_000) for _ in parts]
    reading: list[threading.Thread] = []

    def look() -> None:
        if not reading:
            reading.append(
                threading.Thread(
                    target=receive, args=(here, lambda *_: [memoryview(each) for each in places], lambda: None)
                )
            )
            reading[0].start()

    send(there, Kind.PUSH, {"lease": 2}, parts, look)
    reading[0].join(10.0)
    assert [bytes(place) for place in places] == [bytes(part) for part in parts]


def test_a_check_ends_a_wait_and_another_length_ends_the_connection(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    here, there = pair

    def give_up() -> None:
        raise ConnectionError("in vain")

    with pytest.raises(ConnectionError, match="in vain"):
        receive(here, lambda *_: [], give_up)
    send(there, Kind.WORK, {}, [memoryview(b"12345678")])
    with pytest.raises(BadFrameError, match="another length"):
        receive(here, lambda *_: [memoryview(bytearray(4))], lambda: None)
