"""The tail: who computes what is the same for all, and whatever is handed out is handed out once."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="the runtime needs torch")

from omnilearn_runtime.claiming import Claimer
from omnilearn_runtime.division import Division
from omnilearn_runtime.element import Kind
from omnilearn_runtime.faults import Faults
from omnilearn_runtime.ledger import Intervals
from omnilearn_runtime.store import StoreServer
from omnilearn_runtime.tail import Claims, Handouts, Request, UnansweredError
from omnilearn_runtime.work import Open

shares = st.lists(st.integers(0, 40), min_size=2, max_size=6).filter(any)


def division(given_: list[int], *, first: int = 1, held: Intervals | None = None) -> Division:
    made = Division()
    made.enter(1, given_, first, held or Intervals.of())
    return made


def request(round_: int = 7, attempt: int = 0, *, share: int = 1, least: int = 2) -> Request:
    return Request(round_, attempt, begin=100, end=120, share=share, shares=4, least=least)


# Who computes what


@given(shares, st.integers(0, 30), st.integers(0, 1000))
def test_parts_and_tail_are_the_whole_round(given_: list[int], tail: int, start: int) -> None:
    batch = sum(given_) + tail
    interval = Intervals.of((start, start + batch))
    parts = [division(given_).part(interval, 2, batch, rank) for rank in range(len(given_))]
    assert [own.size for own, _ in parts] == given_
    assert {left for _, left in parts} == {parts[0][1]}
    assert Intervals.of().union(*(own for own, _ in parts), parts[0][1]) == interval


@given(shares, st.integers(1, 30))
def test_a_short_round_has_no_tail(given_: list[int], tail: int) -> None:
    batch = sum(given_) + tail
    interval = Intervals.of((0, batch - 1))
    parts = [division(given_).part(interval, 2, batch, rank) for rank in range(len(given_))]
    assert sum(own.size for own, _ in parts) == batch - 1
    assert not any(left for _, left in parts)


def test_the_first_round_of_a_generation_has_no_tail_whatever_is_held_of_it() -> None:
    for held in (Intervals.of(), Intervals.of((3, 9))):
        made = division([4, 4], first=5, held=held)
        parts = [made.part(Intervals.of((0, 10)), 5, 10, rank) for rank in range(2)]
        assert sum(own.size for own, _ in parts) == 10 - held.size
        assert not any(left for _, left in parts)


def test_a_plan_is_in_force_from_the_second_round_after_it_was_announced() -> None:
    made = division([4, 6])
    made.commit(2, [5, 5])
    assert (made.version, made.shares) == (1, (4, 6))
    made.commit(0, [])
    assert (made.version, made.shares) == (2, (5, 5))


def test_the_member_with_the_largest_share_hands_out() -> None:
    assert division([1, 7, 3]).host == 1


# Handing out


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(2, 30)), min_size=1, max_size=60))
def test_pieces_do_not_overlap_leave_nothing_and_are_never_too_small(asked: list[tuple[int, int]]) -> None:
    handouts, at = Handouts(), 100
    for share, least in [*asked, *[(1, 2)] * 20]:
        low, high = handouts.take("g", request(share=share, least=least))
        assert low == at
        assert high == low or high - low >= 2
        at = high
    assert at == 120


def test_pieces_shrink_and_follow_the_share() -> None:
    sizes = [high - low for low, high in (Handouts().take("g", request(share=share)) for share in (1, 2, 4))]
    assert sizes == [2, 5, 10]
    handouts = Handouts()
    assert [high - low for low, high in (handouts.take("g", request(share=4)) for _ in range(5))] == [10, 5, 2, 3, 0]


def test_a_new_round_and_a_round_begun_anew_have_their_own_tail() -> None:
    handouts = Handouts()
    assert handouts.take("g", request(7, least=20)) == (100, 120)
    assert handouts.take("g", request(7, 1, least=20)) == (100, 120)
    assert handouts.take("g", request(8, least=20)) == (100, 120)


def test_who_asks_for_a_round_that_is_over_is_told_so_instead_of_nothing() -> None:
    handouts = Handouts()
    handouts.take("g", request(8))
    with pytest.raises(ValueError, match="gone on"):
        handouts.take("g", request(7))


def test_generations_hand_out_by_themselves_and_old_ones_are_forgotten() -> None:
    handouts = Handouts()
    for generation in "abcdefghijkl":
        assert handouts.take(generation, request(least=20)) == (100, 120)
    assert len(handouts._newest) == 8


# Asking


@pytest.fixture
def server() -> Iterator[StoreServer]:
    made = StoreServer("127.0.0.1")
    yield made
    made.close()


@pytest.fixture
def claims() -> Iterator[Callable[..., Claims]]:
    made: list[Claims] = []

    def make(in_vain: Callable[[], bool] = lambda: False) -> Claims:
        made.append(Claims(in_vain))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_two_workers_take_all_of_it_between_them(server: StoreServer, claims: Callable[..., Claims]) -> None:
    taken: list[Intervals] = []

    def take() -> None:
        mine = claims()
        while True:
            mine.ask("g", ("127.0.0.1", server.port), request())
            piece = mine.answer()
            if not piece:
                return
            taken.append(piece)

    threads = [threading.Thread(target=take) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert Intervals.of().union(*taken) == Intervals.of((100, 120))
    assert sum(piece.size for piece in taken) == 20


def test_an_answer_that_has_come_is_there_without_waiting(server: StoreServer, claims: Callable[..., Claims]) -> None:
    mine = claims()
    assert mine.poll() is None
    mine.ask("g", ("127.0.0.1", server.port), request(least=20))
    limit = time.monotonic() + 5
    while (piece := mine.poll()) is None and time.monotonic() < limit:
        pass
    assert piece == Intervals.of((100, 120))


def test_who_asks_for_a_round_that_is_over_is_hung_up_on(server: StoreServer, claims: Callable[..., Claims]) -> None:
    ahead, behind = claims(), claims()
    ahead.ask("g", ("127.0.0.1", server.port), request(8))
    assert ahead.answer()
    behind.ask("g", ("127.0.0.1", server.port), request(7))
    with pytest.raises(UnansweredError, match="no answer"):
        behind.answer()


def test_nobody_waits_for_an_answer_in_vain(claims: Callable[..., Claims]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        asked = time.monotonic()
        mine = claims(lambda: time.monotonic() > asked + 0.2)
        mine.ask("g", mute.getsockname(), request())
        assert mine.answer() is None


def test_a_member_that_is_gone_is_named(claims: Callable[..., Claims]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        place = gone.getsockname()
    with pytest.raises(UnansweredError, match="cannot be reached"):
        claims().ask("g", place, request())


def test_a_member_that_hangs_up_is_named(claims: Callable[..., Claims]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as rude:
        mine = claims()
        mine.ask("g", rude.getsockname(), request())
        rude.accept()[0].close()
        with pytest.raises(UnansweredError, match="no answer"):
            mine.answer()


# The engine's side


class Board:
    """As much of a membership as `Claimer` sees."""

    def __init__(self) -> None:
        self.given_up: list[str] = []

    def is_superseded(self, group: object) -> bool:
        return bool(self.given_up)

    def lets_go(self) -> bool:
        return False

    def check(self) -> None:
        """Nobody is released here."""

    def give_up(self, group: object, why: str) -> None:
        self.given_up.append(why)


def member(port: int, *given_: int) -> tuple[Board, Division, Any]:
    """Return a member of rank 0, and its group, whose host listens at ``port``."""
    members = [SimpleNamespace(address="127.0.0.1", port=port) for _ in given_]
    group = SimpleNamespace(id="g", rank=0, size=len(given_), assignment=SimpleNamespace(members=members))
    return Board(), division(list(given_)), group


def opened_with_tail() -> Open:
    return Open(Kind.STEP, 0, Intervals.of((0, 20)), tail=Intervals.of((10, 20)))


def test_a_worker_takes_pieces_until_nothing_is_left(server: StoreServer) -> None:
    board, split, group = member(server.port, 5, 5)
    claimer, opened = Claimer(cast(Any, board), split, Faults("")), opened_with_tail()
    taken = []
    while claimer.take(opened, group, 2):
        taken.append(opened.pending)
        claimer.listen(opened)
        opened.hold(opened.pending)
    assert Intervals.of().union(*taken) == Intervals.of((10, 20))
    assert not opened.tail
    claimer.close()


def test_a_worker_with_nothing_to_do_takes_nothing(server: StoreServer) -> None:
    board, split, group = member(server.port, 0, 10)
    assert not Claimer(cast(Any, board), split, Faults("")).take(opened_with_tail(), group, 2)


def test_a_host_that_goes_while_a_piece_is_computed_is_given_up_and_the_tail_stays(server: StoreServer) -> None:
    board, split, group = member(server.port, 5, 5)
    claimer, opened = Claimer(cast(Any, board), split, Faults("")), opened_with_tail()
    assert claimer.take(opened, group, 2)
    server.close()
    limit = time.monotonic() + 5
    while not board.given_up and opened.tail and time.monotonic() < limit:
        claimer._ahead = None
        claimer._claims._asked = True
        claimer.listen(opened)
    assert board.given_up
    assert opened.tail, "nobody knows what is left of it: it must not be reduced"


def test_a_host_that_cannot_be_reached_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    board, split, group = member(port, 5, 5)
    assert not Claimer(cast(Any, board), split, Faults("")).take(opened_with_tail(), group, 2)
    assert "cannot be reached" in board.given_up[0]
