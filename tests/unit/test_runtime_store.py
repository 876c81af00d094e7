"""The store in which the members of a generation leave their addresses."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest

pytest.importorskip("torch", reason="the store is one of torch's")

from omnilearn_runtime.store import StoreClient, StoreServer

LIMIT = timedelta(seconds=5)


@pytest.fixture(scope="module")
def server() -> Iterator[StoreServer]:
    made = StoreServer("127.0.0.1")
    yield made
    made.close()


@pytest.fixture
def clients(server: StoreServer, request: pytest.FixtureRequest) -> Iterator[list[StoreClient]]:
    made = [StoreClient("127.0.0.1", server.port, request.node.name, LIMIT) for _ in range(2)]
    yield made
    for client in made:
        client.close()


def test_what_one_leaves_another_finds(clients: list[StoreClient]) -> None:
    clients[0].set("0", b"\x00\xffaddress")
    assert clients[1].get("0") == b"\x00\xffaddress"


def test_who_comes_first_waits(clients: list[StoreClient]) -> None:
    found: list[bytes] = []
    waiting = threading.Thread(target=lambda: found.append(clients[1].get("0")))
    waiting.start()
    clients[0].set("0", b"late")
    waiting.join(5.0)
    assert found == [b"late"]


def test_generations_do_not_see_each_other(server: StoreServer, clients: list[StoreClient]) -> None:
    clients[0].set("0", b"of this one")
    other = StoreClient("127.0.0.1", server.port, "another", timedelta(seconds=0.1))
    with pytest.raises(RuntimeError, match="did not answer"):
        other.get("0")
    other.close()


def test_a_store_that_closes_hangs_up_on_who_waits() -> None:
    own = StoreServer("127.0.0.1")
    client = StoreClient("127.0.0.1", own.port, "g", LIMIT)
    threading.Timer(0.1, own.close).start()
    with pytest.raises(RuntimeError, match="did not answer: it hung up"):
        client.get("never")
    client.close()


def test_nobody_waits_for_ever(clients: list[StoreClient]) -> None:
    clients[0].set_timeout(timedelta(seconds=0.1))
    with pytest.raises(RuntimeError, match="did not answer"):
        clients[0].wait(["never"])


def test_an_old_generation_is_forgotten(server: StoreServer) -> None:
    old = StoreClient("127.0.0.1", server.port, "old", LIMIT)
    old.set("0", b"here")
    for number in range(10):
        newer = StoreClient("127.0.0.1", server.port, f"newer {number}", LIMIT)
        newer.set("0", b"here")
        newer.close()
    old.set_timeout(timedelta(seconds=0.1))
    with pytest.raises(RuntimeError, match="did not answer"):
        old.get("1")
    old.close()


@pytest.mark.parametrize("rubbish", [b"GET / HTTP/1.1\r\n\r\n", b"\x00\x00\x00\x02{}", b"\x00\x00\x00\x03abc"])
def test_rubbish_ends_a_connection_and_nothing_else(
    server: StoreServer, clients: list[StoreClient], rubbish: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", server.port), 5.0) as stranger:
        stranger.sendall(rubbish)
        assert stranger.recv(1) == b""
    clients[0].set("0", b"still here")
    assert clients[1].get("0") == b"still here"


def test_a_store_that_is_not_there_is_an_error_of_the_formation() -> None:
    with pytest.raises(RuntimeError, match="cannot be reached"):
        StoreClient("127.0.0.1", 1, "any", LIMIT)
