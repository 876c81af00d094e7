"""Asynchronous training is what a plain replay of the same arrivals gives, whoever joins, leaves or dies."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import Parameter
from torch.optim import SGD, Optimizer

from arrivals import Journal, Replay, as_asynchronous_script
from crew import Crew, Worker
from omnilearn_core.api.strategy import Asynchronous, Staleness, Strategy, StrategyType
from omnilearn_runtime import Session
from omnilearn_runtime.link import RefusedError
from plain import EXPLORE, Recipe, distance, samples, train

BATCH = 8


def gently(parameters: Iterable[Parameter]) -> Optimizer:
    """Return an optimizer with some momentum, which old gradients do not make diverge."""
    return SGD(parameters, lr=0.02, momentum=0.5)


RECIPE = Recipe(dataset=samples(180), optimizer=gently, epochs=2, batch=BATCH)
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


def check(workers: list[Worker], recipe: Recipe = RECIPE) -> Tensor:
    finished = [worker for worker in workers if worker.error is None]
    assert not [each.error for each in workers if not isinstance(each.error, SystemExit | RefusedError | None)]
    assert finished
    for worker in finished:
        assert worker.session is not None
        progress = worker.session._rounds.progress
        assert progress.samples == recipe.epochs * len(recipe.dataset)
        assert (progress.lost, progress.doubled, progress.skipped) == (0, 0, 0)
        assert torch.equal(worker.value, finished[0].value)
    value: Tensor = finished[0].value
    return value


class Unlike:
    """Workers that are not equally fast."""

    def __init__(self, seed: int = 0) -> None:
        self._random, self._lock = random.Random(seed), threading.Lock()

    def __call__(self, _: Session, me: Worker) -> None:
        with self._lock:
            pause = self._random.choice([0.0, 0.001, 0.003]) * (int(me.name[-1]) + 1)
        time.sleep(pause)


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
SHORT = Recipe(dataset=samples(90), optimizer=gently, epochs=2, batch=BATCH)
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
