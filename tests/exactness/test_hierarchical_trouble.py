"""Hierarchical training through checkpoints, evaluations, loops that are left early, bad steps and full memory."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD
from torch.optim.lr_scheduler import OneCycleLR

from crew import Crew, Script, Worker, await_joiner, values
from omnilearn_core.api.strategy import Hierarchical, Strategy, StrategyType
from omnilearn_runtime import Session
from plain import Recipe, distance, flat, loss_of, mlp, samples
from team_steps import Logbook, as_team_script, replay

BATCH = 8
DATASET = samples(76)
PLAIN = Recipe(dataset=DATASET, optimizer=lambda each: SGD(each, lr=0.05), epochs=4, batch=BATCH)
MOMENTUM = Recipe(dataset=DATASET, optimizer=lambda each: SGD(each, lr=0.02, momentum=0.9), epochs=4, batch=BATCH)
OPTIONS = Hierarchical(interval=3, wait=2, warmup_epochs=0, cooldown_epochs=0)


def crew_of(script: Script, groups: str, **settings: Any) -> Crew:
    chosen = Strategy(type=StrategyType.HIERARCHICAL, hierarchical=OPTIONS)
    crew = Crew(script, len(groups), batch=BATCH, strategy=chosen, start_wait=0.2, tail_percent=0, **settings)
    crew.groups = groups
    return crew


def play(script: Script, groups: str, faults: str = "", folder: Path | None = None) -> list[Worker]:
    with crew_of(script, groups) as crew:
        crew.checkpoints = folder
        for number in range(len(groups)):
            crew.start(number, faults)
        return crew.wait()


@pytest.mark.parametrize("point", ["computing", "first-bucket", "reducing", "before-update"])
def test_a_job_whose_workers_all_died_goes_on_from_the_last_mean(tmp_path: Path, point: str) -> None:
    book = Logbook()
    died = play(as_team_script(PLAIN, book), "abb", f"{point}@7:kill", tmp_path)
    assert all(worker.error is not None for worker in died)
    book.run += 1
    again = values(play(as_team_script(PLAIN, book), "abb", folder=tmp_path))
    assert distance(again[0], replay(PLAIN, OPTIONS, book)) < 1e-10


def test_a_team_stays_in_step_with_momentum_through_losses_and_joins() -> None:
    book = Logbook()

    def on_batch(session: Session, me: Worker) -> None:
        if session.step_number >= 12 and me.name == "job-a-0" and len(crew.workers) == 4:
            crew.groups = "aabbb"
            crew.start(4)
        group = session._membership.current
        if len(crew.workers) == 5 and session.step_number < 30 and group is not None and group.size < 4:
            await_joiner(session, 5.0)

    with crew_of(as_team_script(MOMENTUM, book, on_batch), "aabb") as crew:
        for number, fault in enumerate(("", "", "first-bucket@3:kill", "")):
            crew.start(number, fault)
        workers = crew.wait()
    ended = [worker.value for worker in workers if worker.error is None]
    assert len(ended) == 4
    assert all(torch.equal(each, ended[0]) for each in ended)
    assert book.are_in_step()


def test_members_are_equal_at_evaluations_and_a_schedule_has_one_step_per_global_batch() -> None:
    def script(session: Session, me: Worker) -> tuple[list[float], float]:
        model = mlp()
        optimizer = SGD(model.parameters(), lr=0.02, momentum=0.9)
        scheduler = OneCycleLR(optimizer, 0.02, total_steps=PLAIN.steps)
        session.manage(model, optimizer, scheduler=scheduler)
        results = []
        for _ in session.epochs(PLAIN.epochs):
            for x, y in session.batches(DATASET):
                session.step(loss_of(model, x, y))
            results.append(float(session.evaluate(DATASET, partial(squares, model))["sum"]))
            assert math.isclose(results[-1], float(squares(model, *DATASET.tensors)["sum"]), rel_tol=1e-9)
        assert scheduler.last_epoch == session.step_number == PLAIN.steps
        return results, float(flat(model).sum())

    ended = values(play(script, "aab"))
    assert all(each == ended[0] for each in ended)
    assert ended[0][0] == sorted(ended[0][0], reverse=True)


def squares(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    with torch.no_grad():
        return {"sum": (model(x) - y).square().sum()}


@pytest.mark.parametrize("steps", [3, 4, 5])
def test_so_many_steps_are_taken_as_were_asked_for(steps: int) -> None:
    def script(session: Session, _: Worker) -> Tensor:
        model = mlp()
        session.manage(model, SGD(model.parameters(), lr=0.02, momentum=0.9))
        for x, y in session.batches(DATASET, steps=steps):
            session.step(loss_of(model, x, y))
        session.evaluate(DATASET, partial(squares, model))
        assert session.step_number == steps
        return flat(model)

    ended = values(play(script, "aab"))
    assert all(torch.equal(each, ended[0]) for each in ended)


@pytest.mark.parametrize("bad", range(2, 12))
def test_a_step_that_is_not_finite_costs_its_round_and_nothing_else(bad: int) -> None:
    def script(session: Session, me: Worker) -> Tensor:
        model = mlp()
        session.manage(model, SGD(model.parameters(), lr=0.02, momentum=0.9))
        for seen, (x, y) in enumerate(session.batches(DATASET, epochs=2), 1):
            loss = loss_of(model, x, y)
            session.step(loss * math.nan if seen == bad and me.name == "job-b-2" else loss)
        progress = session._rounds.progress
        assert (progress.skipped, progress.lost, progress.doubled) == (1, 0, 0)
        assert progress.samples == 2 * len(DATASET)
        return flat(model)

    ended = values(play(script, "aab"))
    assert all(torch.equal(each, ended[0]) for each in ended)
    assert bool(torch.isfinite(ended[0]).all())


@pytest.mark.parametrize("full", range(2, 8))
def test_a_step_that_does_not_fit_into_memory_is_computed_again_by_all(full: int) -> None:
    book = Logbook()

    def script(session: Session, me: Worker) -> Tensor:
        model, optimizer, _ = PLAIN.parts()
        session.manage(model, optimizer)
        seen = 0
        for _ in session.epochs(PLAIN.epochs):
            for x, y in session.batches(DATASET):
                seen += 1
                if seen == full and me.name == "job-b-2":
                    session.step(out_of_memory, x, y)
                    continue
                book.note(session, me)
                session.step(loss_of(model, x, y))
        return flat(model)

    ended = values(play(script, "abb"))
    assert distance(ended[0], replay(PLAIN, OPTIONS, book)) < 1e-10


def out_of_memory(x: Tensor, y: Tensor) -> Tensor:
    raise torch.OutOfMemoryError(f"no room for {len(x) + len(y)} rows")
