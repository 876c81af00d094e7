"""Passes and epochs: what reaches a joiner in the middle, `steps`, and loops that are left early."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, AdamW
from torch.utils.data import TensorDataset

from crew import Crew, Worker, await_joiner, run, values
from omnilearn_runtime import Session
from plain import Recipe, backward, distance, drawn, flat, global_batches, loss_of, mlp, samples


def test_extra_state_and_moments_reach_a_joiner_and_work_between_epochs_happens() -> None:
    recipe = Recipe(epochs=4)
    with Crew(lambda *_: None, 1) as crew:

        def script(session: Session, me: Worker) -> Any:
            model = mlp()
            optimizer = AdamW(model.parameters(), lr=0.01)
            seen: dict[str, Any] = {"best": -1.0, "epochs": []}
            session.manage(model, optimizer, extra={"seen": seen})
            for epoch in session.epochs(recipe.epochs):
                for x, y in session.batches(recipe.dataset):
                    if session.is_lead and session.step_number == 7:
                        crew.start(9)
                        await_joiner(session)
                    session.step(loss_of(model, x, y))
                seen["epochs"].append(epoch)
                seen["best"] = float(epoch)
                session.log(best=seen["best"])
            state = optimizer.state_dict()["state"]
            return flat(model), seen, [each["exp_avg_sq"] for each in state.values()], session._rounds.progress.step

        crew.script = script
        crew.start(0)
        (one, seen, moments, _), (other, other_seen, other_moments, steps) = values(crew.wait())
    assert torch.equal(one, other)
    assert all(torch.equal(a, b) for a, b in zip(moments, other_moments, strict=True))
    assert seen["epochs"] == other_seen["epochs"] == [0, 1, 2, 3]
    assert steps == recipe.steps


def test_steps_ends_a_pass_after_so_many_steps_on_all_workers_and_the_next_epoch_begins_afresh() -> None:
    def script(session: Session, _: Worker) -> Any:
        model = mlp()
        session.manage(model, SGD(model.parameters(), lr=0.1))
        ends = []
        for _epoch in session.epochs(3):
            for x, y in session.batches(samples(), steps=2):
                session.step(loss_of(model, x, y))
            ends.append(session.step_number)
        return flat(model), ends

    model = mlp()
    optimizer = SGD(model.parameters(), lr=0.1)
    x, y = samples().tensors
    for epoch in range(3):
        for at in global_batches(len(x), epoch)[:2]:
            optimizer.zero_grad()
            backward(loss_of(model, x[at], y[at]))
            optimizer.step()
    for trained, ends in values(run(script, 2)):
        assert ends == [2, 4, 6]
        assert distance(trained, flat(model)) < 1e-10


def test_steps_over_several_epochs_counts_all_of_them() -> None:
    def script(session: Session, _: Worker) -> int:
        model = mlp()
        session.manage(model, SGD(model.parameters(), lr=0.1))
        for x, y in session.batches(samples(16), epochs=9, steps=5):
            session.step(loss_of(model, x, y))
        return session.step_number

    assert values(run(script, 2)) == [5, 5]


def test_a_loop_that_is_left_early_leaves_nothing_in_the_next_step() -> None:
    def script(session: Session, _: Worker) -> Tensor:
        model = mlp()
        session.manage(model, SGD(model.parameters(), lr=0.1))
        for x, y in session.batches(samples(8), micro_batch=4):
            session.step(loss_of(model, x, y))
            break
        for x, y in session.batches(TensorDataset(drawn(8, 3, seed=7), drawn(8, 2, seed=8)), shuffle=False):
            session.step(loss_of(model, x, y))
        return flat(model)

    model = mlp()
    optimizer = SGD(model.parameters(), lr=0.1)
    backward(loss_of(model, drawn(8, 3, seed=7), drawn(8, 2, seed=8)))
    optimizer.step()
    (trained,) = values(run(script, 1))
    assert distance(trained, flat(model)) < 1e-10
