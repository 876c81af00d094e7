"""A worker that only serves: it is the first in rank, computes nothing, and serves again when it comes back."""

from __future__ import annotations

import threading

import pytest

from arrivals import BATCH, RECIPE, SHORT, Journal, Replay, Unlike, as_asynchronous_script, check
from crew import Crew, Script, Worker
from omnilearn_core.api.strategy import Asynchronous, Staleness, Strategy, StrategyType
from omnilearn_runtime import Session
from plain import distance

SERVER = "job-s-2"


def crew_of(script: Script, options: Asynchronous) -> Crew:
    chosen = Strategy(type=StrategyType.ASYNCHRONOUS, asynchronous=options)
    crew = Crew(script, 3, batch=BATCH, strategy=chosen, tail_percent=0, start_wait=0.5)
    crew.groups = "wws"
    return crew


def first(session: Session) -> str:
    group = session._membership.current
    return "" if group is None else group.names[0]


@pytest.mark.parametrize("staleness", Staleness)
def test_a_server_of_its_own_is_given_nothing_to_compute(staleness: Staleness) -> None:
    options, journal, unlike = Asynchronous(staleness=staleness, server_group="s"), Journal(), Unlike()
    servers: set[str] = set()

    def on_batch(session: Session, me: Worker) -> None:
        unlike(session, me)
        servers.add(first(session))

    with crew_of(as_asynchronous_script(SHORT, journal, on_batch), options) as crew:
        for number in range(3):
            crew.start(number)
        workers = crew.wait()
    assert distance(check(workers, SHORT), Replay(SHORT, options).play(journal.events)) < 1e-10
    assert servers == {SERVER}
    assert {event[1] for event in journal.events if event[0] == "issued"} == {"job-w-0", "job-w-1"}
    # Whoever does not compute is not counted where the number of workers is the bound.
    assert {event[3] for event in journal.events if event[0] == "began"} == {2}


def test_the_others_go_on_without_the_server_and_it_serves_again_when_it_is_back() -> None:
    options, journal, lock = Asynchronous(server_group="s"), Journal(), threading.Lock()
    servers: list[str] = []

    def on_batch(session: Session, _: Worker) -> None:
        known, now = session._membership, first(session)
        with lock:
            if servers[-1:] != [now]:
                servers.append(now)
            back = len(servers) == 2 and len(crew.workers) == 3
            if back:
                crew.start(2, attempt=1)
        if len(servers) == 2:  # it should not come too late
            known.wait(lambda: known.newest is not None and known.newest.members[0].worker == SERVER, 10.0)

    with crew_of(as_asynchronous_script(RECIPE, journal, on_batch), options) as crew:
        for number in range(3):
            crew.start(number, "applied@30:kill" if number == 2 else "")
        workers = crew.wait()
        while len(workers) < 4:
            workers = crew.wait()
    assert distance(check(workers), Replay(RECIPE, options).play(journal.events)) < 1e-10
    assert servers == [SERVER, "job-w-0", SERVER]
    assert workers[3].error is None
