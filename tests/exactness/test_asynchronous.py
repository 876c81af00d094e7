"""Asynchronous training is what a plain replay of the same arrivals gives, whoever joins, leaves or dies."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arrivals import RECIPE, SHORT, Journal, Replay, Unlike, as_asynchronous_script, check
from crew import Crew, Worker
from omnilearn_core.api.strategy import Asynchronous, Staleness, Strategy, StrategyType
from omnilearn_runtime import Session
from plain import EXPLORE, Recipe, distance, train

KINDS = [
    Asynchronous(staleness=kind, bound=bound) for kind in Staleness for bound in ([2, 3] if kind.has_bound else [None])
]

OnBatch = Callable[[Session, Worker], object]


def named(options: Asynchronous) -> str:
    return f"{options.staleness}-{options.bound}"


def play(
    options: Asynchronous, faults: dict[int, str], on_batch: OnBatch = lambda *_: None, recipe: Recipe = RECIPE
) -> tuple[list[Worker], Journal]:
    chosen = Strategy(type=StrategyType.ASYNCHRONOUS, asynchronous=options)
    journal = Journal()
    script = as_asynchronous_script(recipe, journal, on_batch)
    with Crew(script, len(faults), batch=recipe.batch, strategy=chosen, start_wait=0.5, tail_percent=0) as crew:
        for number, each in faults.items():
            crew.start(number, each)
        return crew.wait(), journal


@pytest.mark.parametrize("options", KINDS, ids=named)
def test_unlike_workers_end_where_a_plain_replay_ends(options: Asynchronous) -> None:
    workers, journal = play(options, dict.fromkeys(range(3), ""), Unlike())
    assert distance(check(workers), Replay(RECIPE, options).play(journal.events)) < 1e-10


@pytest.mark.parametrize("options", KINDS, ids=named)
def test_one_worker_is_plain_sgd(options: Asynchronous) -> None:
    options = options.model_copy(update={"bound": 1}) if options.staleness.has_bound else options
    workers, _ = play(options, {0: ""})
    assert distance(check(workers), train(RECIPE)) < 1e-10


WORKER_POINTS = ("leased", "pushing", "meeting", "roll-call", "healing", "healed", "entered", "computing", "reducing")
SERVER_POINTS = ("pushed", "applied", "snapshot")
STEADY = [each for each in KINDS if each.staleness in (Staleness.UNBOUNDED, Staleness.RINGMASTER, Staleness.RENNALA)]
RELAXED = settings(
    max_examples=16 * EXPLORE,
    deadline=None,
    derandomize=EXPLORE == 1,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@RELAXED
@given(
    options=st.sampled_from(STEADY),
    point=st.sampled_from(WORKER_POINTS),
    round_=st.integers(0, 60),
    deed=st.sampled_from(["kill", "kill", "terminate"]),
    struck=st.sampled_from([0, 0, 1, 2]),
)
def test_a_worker_that_dies_or_leaves_costs_no_sample_even_if_it_is_the_server(
    options: Asynchronous, point: str, round_: int, deed: str, struck: int
) -> None:
    faults = {number: f"{point}@{round_}:{deed}" if number == struck else "" for number in range(3)}
    workers, journal = play(options, faults, Unlike(round_), SHORT)
    assert distance(check(workers, SHORT), Replay(SHORT, options).play(journal.events)) < 1e-10


faults = st.builds(
    lambda point, round_, deed: f"{point}@{round_}:{deed}",
    st.sampled_from(WORKER_POINTS),
    st.integers(0, 60),
    st.sampled_from(["kill", "kill", "terminate"]),
)


class Joiners(Unlike):
    """Unlike workers, and others that come when so many updates were made."""

    def __init__(self, seed: int, joiners: dict[int, str]) -> None:
        super().__init__(seed)
        self.joiners = joiners

    def __call__(self, session: Session, me: Worker) -> None:
        super().__call__(session, me)
        with self._lock:
            due = [step for step in self.joiners if session.step_number >= step]
            coming = [self.joiners.pop(step) for step in due]
        for each in coming:
            self.start(each)

    start: Callable[[str], object]


@RELAXED
@given(
    options=st.sampled_from(STEADY),
    count=st.integers(2, 4),
    survivor=st.integers(0, 3),
    struck=st.dictionaries(st.integers(0, 3), st.one_of(faults, faults), max_size=3),
    server=st.sampled_from(["", "", "pushed@20:kill", "applied@33:kill"]),
    joiners=st.dictionaries(st.integers(0, 50), st.one_of(st.just(""), faults), max_size=2),
    seed=st.integers(0, 2**16),
)
def test_any_history_loses_and_doubles_nothing_and_ends_where_its_replay_ends(  # noqa: PLR0913, PLR0917 - drawn
    options: Asynchronous, count: int, survivor: int, struck: dict[int, str], server: str, joiners: dict[int, str],
    seed: int,
) -> None:  # fmt: skip
    chosen = Strategy(type=StrategyType.ASYNCHRONOUS, asynchronous=options)
    journal, history = Journal(), Joiners(seed, dict(joiners))
    safe = survivor % count
    script = as_asynchronous_script(SHORT, journal, history)
    with Crew(script, count, batch=SHORT.batch, strategy=chosen, start_wait=0.5, tail_percent=0) as crew:
        history.start = lambda each: crew.start(len(crew.workers), each)
        for number in range(count):
            own = ",".join(filter(None, [struck.get(number, ""), server if number == 0 else ""]))
            crew.start(number, "" if number == safe else own)
        workers = crew.wait()
    assert distance(check(workers, SHORT), Replay(SHORT, options).play(journal.events)) < 1e-10
