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
