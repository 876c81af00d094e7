"""The asynchronous server from outside: what it says to strangers, and what it does about generations."""

from __future__ import annotations

import itertools
import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import TypeVar

import pytest
from torch.optim import SGD

from omnilearn_core.api.messages import Assignment, Change, GenerationId, MemberAddress, Plan
from omnilearn_core.api.strategy import GradientType
from omnilearn_runtime.asynchronous.account import Account, Standing
from omnilearn_runtime.asynchronous.central import Central
from omnilearn_runtime.asynchronous.client import Client
from omnilearn_runtime.asynchronous.endpoint import Endpoint
from omnilearn_runtime.asynchronous.following import Course, course
from omnilearn_runtime.asynchronous.frames import Frame, Kind
from omnilearn_runtime.asynchronous.policies import Policy
from omnilearn_runtime.asynchronous.server import Server
from omnilearn_runtime.faults import Faults
from omnilearn_runtime.managed import manage
from omnilearn_runtime.progress import Progress
from plain import mlp

HOST = "127.0.0.1"
S = TypeVar("S", bound=Server)


def generation(number: int, *names: str, change: Change = Change.URGENT, fresh: bool = False) -> Assignment:
    id_ = GenerationId(number=number, nonce="n")
    return Assignment(
        term=1,
        generation=id_,
        change=change,
        members=[
            MemberAddress(worker=name, attempt=0, device="cpu", address=HOST, port=1, fresh=fresh) for name in names
        ],
        plan=Plan(generation=id_, version=1, global_batch=len(names), shares=dict.fromkeys(names, 1)),
    )


class Roster:
    """What the server knows of generations."""

    def __init__(self, newest: Assignment | None = None, *, built: bool = False) -> None:
        self.newest, self.built = newest, built

    def has_built(self, assignment: Assignment) -> bool:
        return self.built


def central() -> Central:
    model = mlp()
    return Central(manage(model, SGD(model.parameters(), lr=0.1), None, None), GradientType.FULL)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    listening = Endpoint(HOST)
    account = Account(Progress(size=20), Standing(), 4)
    server = Server(central(), Policy(), account, generation(1, "a", "b"), Roster(), Faults(""))
    server.start()
    listening.serve(server)
    yield listening
    listening.close()
    server.stop()


def hello(endpoint: Endpoint, worker: str, holds: int = 0) -> tuple[Client, Frame]:
    mine = central()
    client = Client.to((HOST, endpoint.port), lambda: False)
    client.use(mine.layout)
    text = {"generation": 1, "worker": worker, "attempt": 0, "holds": holds}
    model = {"model": mine.managed.fingerprint(), "layout": mine.layout.describe()}
    return client, client.ask(Kind.HELLO, text | model)


GARBAGE = [
    b"GET / HTTP/1.1\r\n\r\n\r\n",
    struct.pack("<4sBxxxIQ", b"OLA1", 99, 0, 0),
    struct.pack("<4sBxxxIQ", b"OLA1", Kind.ASK, 2**31, 0),
    struct.pack("<4sBxxxIQ", b"OLA1", Kind.ASK, 2, 0) + b"[]",
    struct.pack("<4sBxxxIQ", b"OLA1", Kind.PUSH, 2, 2**40) + b"{}",
    struct.pack("<4sBxxxIQ", b"OLA1", Kind.HELLO, 2, 0) + b"{}",
    struct.pack("<4sBxxxIQ", b"OLA1", Kind.WORK, 2, 0) + b"{}",
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_whoever_sends_nonsense_is_hung_up_on_and_the_others_are_served(endpoint: Endpoint, garbage: bytes) -> None:
    with socket.create_connection((HOST, endpoint.port), 5.0) as stranger:
        stranger.sendall(garbage)
        assert stranger.recv(1) == b""
    client, answer = hello(endpoint, "a")
    assert answer.kind is Kind.STATE
    client.close()


class Hiccup:
    """A listener that fails once, as the system does for whoever hangs up before being accepted."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener, self.failed = listener, threading.Event()

    def accept(self) -> tuple[socket.socket, object]:
        if not self.failed.is_set():
            self.failed.set()
            raise ConnectionAbortedError("it has hung up")
        return self._listener.accept()

    def close(self) -> None:
        self._listener.close()


def test_a_connection_that_cannot_be_accepted_does_not_end_the_listening(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = Hiccup(endpoint._listener)
    monkeypatch.setattr(endpoint, "_listener", listener)
    assert listener.failed.wait(5.0)
    client, answer = hello(endpoint, "a")
    assert answer.kind is Kind.STATE
    client.close()


def test_a_worker_that_is_no_member_is_sent_away(endpoint: Endpoint) -> None:
    client, answer = hello(endpoint, "c")
    assert answer.kind is Kind.GONE
    client.close()


def test_the_state_is_given_to_those_who_hold_another(endpoint: Endpoint) -> None:
    client, answer = hello(endpoint, "a", holds=-1)
    state = client.state()
    assert answer.kind is Kind.STATE
    assert state is not None
    assert state["progress"]["round"] == 0
    client.close()


def test_a_gradient_of_samples_that_a_worker_does_not_have_is_not_used(endpoint: Endpoint) -> None:
    client, _ = hello(endpoint, "a")
    said = {"pass": 0, "share": 4, "built": 0}
    work = client.ask(Kind.ASK, said)
    assert work.text["samples"] == [[0, 4]]
    flat = central().layout.new_gradient(wire=True)
    wrong = {"lease": work.text["lease"], "samples": [[0, 5]], "weight": 5.0, "finite": True, "touched": ""}
    assert client.ask(Kind.PUSH, said | wrong, flat.views).kind is Kind.GONE
    other, _ = hello(endpoint, "b")
    assert other.ask(Kind.ASK, said).text["samples"] == [[0, 4]], "they were given back"
    client.close()
    other.close()


# Where to go


class JustEnded(Server):
    """A server that ends after it was found, and before it is greeted."""

    sayings: Iterator[bool] | None = None

    @property
    def over(self) -> bool:
        return super().over if self.sayings is None else next(self.sayings)


def ended(kind: type[S], *, number: int = 1) -> S:
    """Return a server that has ended as soon as it had begun, because another one takes over."""
    handing_over = Roster(generation(number + 1, "b", "a", change=Change.PLANNED), built=True)
    account = Account(Progress(size=20), Standing(), 4)
    server = kind(central(), Policy(), account, generation(number, "a", "b"), handing_over, Faults(""))
    server.start()
    server.join()
    assert (server.meeting, server.round) == (number, 1)
    return server


def test_a_server_that_has_ended_calls_those_to_the_meeting_who_have_not_met(endpoint: Endpoint) -> None:
    server = ended(Server)
    endpoint.serve(server)
    assert endpoint.find(1, met=-1) is server
    assert endpoint.find(1, met=server.round - 1) is server
    assert endpoint.find(1, met=server.round) is None, "whoever comes from the meeting waits for the next one"


def test_a_server_that_has_ended_calls_those_of_an_earlier_generation_to_its_meeting_too(endpoint: Endpoint) -> None:
    server = ended(Server, number=4)
    endpoint.serve(server)
    assert endpoint.find(3, met=0) is server


@pytest.mark.parametrize("met", [-1, 0, 1], ids=["who is not in it", "who has not met", "who has met"])
def test_whoever_asks_in_a_generation_that_was_left_is_told_in_which_all_meet(endpoint: Endpoint, met: int) -> None:
    """Otherwise it would wait here for a server, and the others in a roll call for it."""
    endpoint.serve(ended(Server))
    endpoint.meet(3)
    assert endpoint.find(1, met) == 3


def test_those_who_meet_without_a_server_are_told_so_until_they_have_met(endpoint: Endpoint) -> None:
    endpoint.serve(None)
    endpoint.meet(2)
    assert endpoint.find(2, met=-1) == 2
    assert endpoint.find(2, met=0) is None
    assert endpoint.find(3, met=-1) is None


def test_whoever_is_brought_to_a_server_that_has_just_ended_hears_that_at_once(endpoint: Endpoint) -> None:
    server = ended(JustEnded)
    server.sayings = itertools.chain([False] * 3, itertools.repeat(True))
    endpoint.serve(server)
    began = time.monotonic()
    client, answer = hello(endpoint, "a")
    assert answer.kind is Kind.MEET
    assert time.monotonic() - began < 10.0
    client.close()


COURSES = {
    "no news": (None, False, Course.STAY),
    "the same": (generation(1, "a", "b"), False, Course.STAY),
    "a loss": (generation(2, "a"), False, Course.ADOPT),
    "a joiner, not built": (generation(2, "a", "b", "c", change=Change.PLANNED), False, Course.STAY),
    "a joiner": (generation(2, "a", "b", "c", change=Change.PLANNED), True, Course.ADOPT),
    "the server leaves": (generation(2, "b", change=Change.PLANNED), False, Course.HAND_OVER),
    "the server is given up": (generation(2, "b"), False, Course.GIVE_UP),
    "the server is only a joiner": (generation(2, "a", fresh=True), False, Course.GIVE_UP),
    "all begin anew": (generation(2, "a", "b", change=Change.START), False, Course.GIVE_UP),
}


@pytest.mark.parametrize("name", COURSES)
def test_a_server_follows_the_generations(name: str) -> None:
    newest, built, wanted = COURSES[name]
    assert course(generation(1, "a", "b"), newest, Roster(newest, built=built)) is wanted
