"""An evaluation is split over the members, exact, and survives their deaths; checkpoints lose and double nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD
from torch.optim.lr_scheduler import StepLR

from crew import Crew, Worker, force_plan, run, values
from omnilearn_runtime import Session
from plain import Recipe, as_script, distance, flat, loss_of, mlp, samples, train

VALIDATION = samples(101)


def sums(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Any]:
    squares = torch.square(model(x) - y)
    return {"loss": squares.sum(), "each": squares.sum(0), "count": len(x)}


def evaluating(session: Session, me: Worker) -> Any:
    model = mlp()
    model.append(nn.Dropout(0.5))
    session.manage(model, SGD(model.parameters(), lr=0.1))
    found = []
    for _ in session.epochs(2):
        for x, y in session.batches(samples()):
            force_plan(session, me.notes.get("shares", [3]))
            session.step(loss_of(model, x, y))
        seen: list[int] = []

        def function(x: Tensor, y: Tensor, seen: list[int] = seen) -> dict[str, Any]:
            assert not torch.is_grad_enabled()
            seen.append(len(x))
            return sums(model, x, y)

        result = session.evaluate(VALIDATION, function, batch=16)
        assert model.training
        model.eval()
        whole = sums(model, *VALIDATION.tensors)
        model.train()
        found.append((result, {name: torch.as_tensor(each).detach() for name, each in whole.items()}, sum(seen)))
    return flat(model), found


def check(workers: list[Worker]) -> list[Any]:
    finished = [worker.value for worker in workers if worker.error is None]
    for trained, found in finished:
        assert torch.equal(trained, finished[0][0])
        for result, whole, _ in found:
            assert result["count"] == len(VALIDATION)
            assert abs(result["loss"] - float(whole["loss"])) < 1e-9
            assert distance(result["each"], whole["each"]) < 1e-9
    return finished


@pytest.mark.parametrize("shares", [[3], [0], [8]])
def test_an_evaluation_is_split_and_exact(shares: list[int]) -> None:
    def script(session: Session, me: Worker) -> Any:
        me.notes["shares"] = shares
        return evaluating(session, me)

    finished = check(run(script, 2))
    assert sum(found[-1][2] for _, found in finished) == len(VALIDATION)


@pytest.mark.parametrize("point", ["evaluating", "reducing"])
def test_an_evaluation_survives_a_member_that_dies_during_it(point: str) -> None:
    # Round 7 is the evaluation after the first epoch of six steps.
    assert len(check(run(evaluating, 3, faults={1: f"{point}@7:kill"}))) == 2


def test_a_function_that_gives_no_sums_is_told_so() -> None:
    def script(session: Session, _: Worker) -> None:
        model = mlp()
        session.manage(model, SGD(model.parameters(), lr=0.1))
        session.evaluate(VALIDATION, lambda x, y: 3.0)  # type: ignore[arg-type,return-value]

    (worker,) = run(script, 1)
    assert "give a dictionary of sums" in str(worker.error)


def two_passes(session: Session, epochs: int = 3) -> Tensor:
    model = mlp()
    optimizer = SGD(model.parameters(), lr=0.1)
    session.manage(model, optimizer, scheduler=StepLR(optimizer, 1, 0.5), scheduler_per_epoch=True)
    for _ in session.epochs(epochs):
        session.evaluate(VALIDATION, lambda x, y: {"count": len(x)})
        for count in (24, 16):
            for x, y in session.batches(samples(count)):
                session.step(loss_of(model, x, y))
    assert session.step_number == epochs * 5
    return flat(model)


@pytest.mark.parametrize("round_", [6, 7, 9, 12])
def test_epochs_with_several_passes_and_an_evaluation_first_go_on_where_they_were(tmp_path: Path, round_: int) -> None:
    (expected,) = values(run(lambda session, _: two_passes(session), 1))
    for count, faults in ((2, f"computing@{round_}:kill"), (3, "")):
        with Crew(lambda session, _: two_passes(session), count) as crew:
            crew.checkpoints = tmp_path
            for number in range(count):
                crew.start(number, faults)
            workers = crew.wait()
    for trained in values(workers):
        assert distance(trained, expected) < 1e-10


def test_two_loops_of_epochs_are_both_run_in_full() -> None:
    def script(session: Session, _: Worker) -> list[int]:
        model = mlp()
        session.manage(model, SGD(model.parameters(), lr=0.1))
        ran = []
        for count in (2, 3):
            for epoch in session.epochs(count):
                for x, y in session.batches(samples(16)):
                    session.step(loss_of(model, x, y))
                ran.append(epoch)
        return [*ran, session.step_number]

    assert values(run(script, 2)) == [[0, 1, 0, 1, 2, 10]] * 2


def test_a_corrupt_newest_checkpoint_is_passed_over(tmp_path: Path) -> None:
    def all_written(session: Session, _: Worker) -> None:
        """Wait until every checkpoint that may be seen is there: steps are faster than files."""
        writer = session._saving._writer
        assert writer is not None
        session._membership.wait(lambda: writer._pending is None or not writer._pending.confirmed, 10.0)

    recipe = Recipe(epochs=3)
    for count, faults in ((2, "computing@9:kill"), (1, "")):
        with Crew(as_script(recipe, all_written), count) as crew:
            crew.checkpoints = tmp_path
            for number in range(count):
                crew.start(number, faults)
            workers = crew.wait()
        if faults:
            files = sorted(path for path in tmp_path.iterdir() if path.is_file() and not path.name.startswith("."))
            assert len(files) > 1
            files[-1].write_bytes(files[-1].read_bytes()[: files[-1].stat().st_size // 2])
    (trained,) = values(workers)
    assert distance(trained, train(recipe)) < 1e-10
