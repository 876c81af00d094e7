"""Out of memory, gradients that are not finite, scripts that cannot work, and failing user code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import LBFGS, SGD
from torch.utils.data import IterableDataset, TensorDataset

from crew import Crew, Worker, force_plan, run, values
from omnilearn_runtime import Session, UnsuitableError
from omnilearn_runtime.rollcall import UnlikeError
from omnilearn_runtime.strategies import DivergedError
from plain import Recipe, backward, distance, drawn, flat, loss_of, mlp, samples, train, with_values

FULL = "not enough memory"


class Forgetful(torch.autograd.Function):
    """Passes on its input; runs out of memory in backward if there is too much of it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, most: int) -> Tensor:
        ctx.most = most
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        if len(gradients[0]) > ctx.most:
            raise torch.OutOfMemoryError(FULL)
        return gradients[0], None


def full_in_forward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    if len(x) > 2:
        raise torch.OutOfMemoryError(FULL)
    return loss_of(model, x, y)


def full_in_backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    first, rest = next(model.children()), list(model.children())[1:]
    # Between two layers, so that the last one's gradients are there already.
    return nn.functional.mse_loss(nn.Sequential(*rest)(Forgetful.apply(first(x), 2)), y)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("small_buckets", [False, True])
@pytest.mark.parametrize("loss", [full_in_forward, full_in_backward])
def test_a_micro_batch_that_does_not_fit_is_halved_and_the_result_is_exact(
    loss: Callable[[nn.Module, Tensor, Tensor], Tensor], small_buckets: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if small_buckets:  # so that a bucket is on its way when memory runs out
        monkeypatch.setattr("omnilearn_runtime.buckets.BUCKET_BYTES", 8)

    def script(session: Session, _: Worker) -> Any:
        model = mlp()
        session.manage(model, SGD(model.parameters(), lr=0.1, momentum=0.9))
        for x, y in session.batches(samples(), epochs=2):
            force_plan(session, [5])
            session.step(lambda x, y: loss(model, x, y), x, y)
        return flat(model), session._reporter.memory_bound, session._rounds.progress

    for trained, bound, progress in values(run(script, 2)):
        assert distance(trained, train(Recipe())) < 1e-10
        assert bound in (1, 2)
        assert (progress.samples, progress.lost, progress.doubled) == (88, 0, 0)


def test_what_a_failed_forward_did_to_running_statistics_is_undone() -> None:
    def script(session: Session, me: Worker, most: int) -> Tensor:
        model = with_values(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)))
        session.manage(model, SGD(model.parameters(), lr=0.1))

        def loss(x: Tensor, y: Tensor) -> Tensor:
            value = loss_of(model, x, y)
            if len(x) > most:
                raise torch.OutOfMemoryError(FULL)
            return value

        for x, y in session.batches(samples(8), micro_batch=8 if most == 4 else 4):
            session.step(loss, x, y)
        mean: Any = model[1].running_mean
        return torch.cat([mean, flat(model)])

    (one,) = values(run(lambda s, w: script(s, w, 4), 1))
    (other,) = values(run(lambda s, w: script(s, w, 8), 1))
    assert torch.equal(one, other)


def test_one_sample_that_does_not_fit_is_an_error() -> None:
    def script(session: Session, _: Worker) -> None:
        model = mlp()
        session.manage(model, SGD(model.parameters(), lr=0.1))
        for x, y in session.batches(samples(8)):
            session.step(
                lambda x, y: loss_of(model, x, y) if len(x) < 1 else full_in_forward(model, x[[0] * 3], y), x, y
            )

    (worker,) = run(script, 1)
    assert isinstance(worker.error, torch.OutOfMemoryError)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_is_skipped_by_all_and_counted(bad: float) -> None:
    def script(session: Session, me: Worker) -> Any:
        model = mlp()
        session.manage(model, SGD(model.parameters(), lr=0.1, momentum=0.9))
        for x, y in session.batches(samples(24), shuffle=False):
            poisoned = session.step_number == 1 and me.name.endswith("1")
            session.step(loss_of(model, x, y) * (bad if poisoned else 1.0))
        return flat(model), session._rounds.progress.skipped, session.step_number

    model = mlp()
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = samples(24).tensors
    for at in (slice(0, 8), slice(16, 24)):
        optimizer.zero_grad()
        backward(loss_of(model, x[at], y[at]))
        optimizer.step()
    for trained, skipped, steps in values(run(script, 2)):
        assert distance(trained, flat(model)) < 1e-10
        assert (skipped, steps) == (1, 3)


def test_ten_bad_gradients_in_a_row_end_the_job_with_a_sentence() -> None:
    def script(session: Session, _: Worker) -> None:
        model = mlp()
        session.manage(model, SGD(model.parameters(), lr=0.1))
        for x, y in session.batches(samples(), epochs=9):
            session.step(loss_of(model, x, y) * float("nan"))

    with Crew(script, 2) as crew:
        crew.start(0), crew.start(1)
        workers = crew.wait()
        outcome = crew.coordinator.outcome
    assert all(isinstance(worker.error, DivergedError | SystemExit) for worker in workers)
    assert any("10 steps in a row" in str(worker.error) for worker in workers)
    assert outcome is not None
    assert not outcome.complete
    assert "lower the learning rate" in outcome.why


class Stream(IterableDataset[Tensor]):
    def __iter__(self) -> Iterator[Tensor]:
        return iter(drawn(4, 3))


def managing(model: Callable[[Worker], Any], optimizer: Any = None, data: Any = None) -> Callable[..., None]:
    def script(session: Session, me: Worker) -> None:
        made = model(me)
        session.manage(made, (optimizer or (lambda ps: SGD(ps, lr=0.1)))(made.parameters()))
        for x, y in session.batches(data or samples()):
            session.step(loss_of(made, x, y))

    return script


class Sparse(nn.Module):
    """Makes a sparse gradient without a layer that says so."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(drawn(4, 2))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.embedding(x[:, 0].long().abs() % 4, self.weight, sparse=True)


def other_width(me: Worker) -> nn.Module:
    wide = 4 + int(me.name[-1])
    return with_values(nn.Sequential(nn.Linear(3, wide), nn.Linear(wide, 2)))


def other_values(me: Worker) -> nn.Module:
    return with_values(nn.Linear(3, 2), seed=int(me.name[-1]))


def twice(session: Session, _: Worker) -> None:
    model = mlp()
    session.manage(model, SGD(model.parameters(), lr=0.1))
    session.manage(model, SGD(model.parameters(), lr=0.1))


HOPELESS: dict[str, tuple[Callable[..., None], type[BaseException], str]] = {
    "iterable": (managing(lambda _: mlp(), data=Stream()), UnsuitableError, "use a map-style dataset"),
    "sparse layer": (managing(lambda _: nn.Embedding(3, 2, sparse=True)), UnsuitableError, "use sparse=False"),
    "sparse gradient": (managing(lambda _: Sparse()), UnsuitableError, "the gradient of model.weight is sparse"),
    "other model": (managing(other_width), UnlikeError, "names, shapes and types must be the same"),
    "other values": (managing(other_values), UnlikeError, "begin with different parameters"),
    "LBFGS": (managing(lambda _: mlp(), LBFGS), UnsuitableError, "use an optimizer that needs one gradient"),
    "managed twice": (twice, UnsuitableError, "session.manage was called twice"),
}


@pytest.mark.parametrize("name", HOPELESS)
def test_what_cannot_work_ends_the_job_with_its_sentence_on_every_worker(name: str) -> None:
    script, kind, sentence = HOPELESS[name]
    with Crew(script, 2) as crew:
        crew.start(0), crew.start(1)
        workers = crew.wait(20.0)
        outcome = crew.coordinator.outcome
    errors = [worker.error for worker in workers]
    assert any(isinstance(error, kind) and sentence in str(error) for error in errors)
    assert outcome is not None
    assert sentence in outcome.why
    assert not [error for error in errors if error is None]


def without_step(session: Session, model: nn.Module) -> None:
    for _ in session.batches(samples()):
        pass


def twice_stepped(session: Session, model: nn.Module) -> None:
    for x, y in session.batches(samples()):
        session.step(loss_of(model, x, y))
        session.step(loss_of(model, x, y))


def without_batch(session: Session, model: nn.Module) -> None:
    session.step(loss_of(model, *samples(2).tensors))


MISUSES: list[tuple[Callable[[Session, nn.Module], None], str]] = [
    (without_step, "the last batch was not stepped"),
    (twice_stepped, "there is no batch to step"),
    (without_batch, "there is no batch to step"),
]


@pytest.mark.parametrize(("misuse", "sentence"), MISUSES, ids=lambda each: getattr(each, "__name__", ""))
def test_a_misuse_is_said_in_a_sentence(misuse: Callable[[Session, nn.Module], None], sentence: str) -> None:
    def script(session: Session, _: Worker) -> None:
        model = mlp()
        session.manage(model, SGD(model.parameters(), lr=0.1))
        misuse(session, model)

    (worker,) = run(script, 1)
    assert sentence in str(worker.error)


def test_training_without_manage_is_said_in_a_sentence() -> None:
    (worker,) = run(lambda session, _: next(iter(session.batches(samples()))), 1)
    assert "call session.manage(model, optimizer) before training" in str(worker.error)


def test_an_error_of_the_script_takes_only_that_worker_out_and_is_told_with_its_last_lines() -> None:
    def script(session: Session, me: Worker) -> Tensor:
        model = mlp()
        session.manage(model, SGD(model.parameters(), lr=0.1, momentum=0.9))
        for x, y in session.batches(samples(), epochs=2):
            if me.name.endswith("1") and session.step_number == 4:
                raise KeyError("no such picture")
            session.step(loss_of(model, x, y))
        return flat(model)

    with Crew(script, 2) as crew:
        crew.start(0), crew.start(1)
        well, ill = crew.wait()
        told = crew.told()
    assert isinstance(ill.error, KeyError)
    assert any("job-w-1 failed: " in each and "no such picture" in each for each in told)
    assert distance(well.value, train(Recipe())) < 1e-10


def test_a_dataset_that_fails_says_for_which_sample() -> None:
    class Broken(TensorDataset):
        def __getitem__(self, index: int) -> Any:
            if index == 5:
                raise ValueError("cannot read it")
            return self.tensors[0][index], self.tensors[1][index]

    (worker,) = run(managing(lambda _: mlp(), data=Broken(*samples().tensors)), 1)
    assert "the dataset failed for sample 5: ValueError: cannot read it" in str(worker.error)
