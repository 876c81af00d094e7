"""Scripts as people write them: own collate functions, tokens, several losses, odd parameters, work between epochs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from torch.optim import SGD, AdamW

from crew import Worker, force_plan, run, values
from omnilearn_runtime import Session
from plain import (
    Recipe,
    as_script,
    backward,
    distance,
    flat,
    global_batches,
    loss_of,
    mlp,
    samples,
    train,
    with_values,
)

PAD = -100


class Texts:
    """Sequences of unlike length; some have no token that counts."""

    def __len__(self) -> int:
        return 36

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        length = 1 + index % 5
        words = torch.arange(index, index + length) % 7
        return {"words": words, "labels": (words * 3 % 7) if index % 4 else torch.full((length,), PAD)}


def padded(items: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {
        "words": pad_sequence([item["words"] for item in items], batch_first=True),
        "labels": pad_sequence([item["labels"] for item in items], batch_first=True, padding_value=PAD),
    }


def language_model() -> nn.Module:
    return with_values(nn.Sequential(nn.Embedding(7, 4), nn.Tanh(), nn.Linear(4, 7)))


def token_loss(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    counts = (batch["labels"] != PAD).double()
    each = functional.cross_entropy(
        model(batch["words"]).movedim(-1, 1), batch["labels"], ignore_index=PAD, reduction="none"
    )
    return (each * counts).sum() / counts.sum()


def trained_on_tokens() -> Tensor:
    model, texts = language_model(), Texts()
    optimizer = SGD(model.parameters(), lr=0.5)
    for at in global_batches(len(texts), 0):
        optimizer.zero_grad()
        backward(token_loss(model, padded([texts[i] for i in at])))
        optimizer.step()
    return flat(model)


@pytest.mark.parametrize("loaders", [0, 1])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_mean_over_tokens_is_exact_even_for_a_slice_without_any(loaders: int) -> None:
    def script(session: Session, _: Worker) -> Tensor:
        model = language_model()
        session.manage(model, SGD(model.parameters(), lr=0.5))
        for batch in session.batches(Texts(), collate=padded, workers=loaders, micro_batch=2):
            force_plan(session, [1, 7])
            session.step(token_loss(model, batch), weight=int((batch["labels"] != PAD).sum()))
        assert session._rounds.progress.skipped == 0
        return flat(model)

    for trained in values(run(script, 2)):
        assert distance(trained, trained_on_tokens()) < 1e-10


def own_backward(session: Session, model: nn.Module, x: Tensor, y: Tensor) -> None:
    backward(loss_of(model, x, y))
    session.step()


def two_losses(session: Session, model: nn.Module, x: Tensor, y: Tensor) -> None:
    half = loss_of(model, x, y) / 2
    session.backward(half)
    session.backward(loss_of(model, x, y) / 2)
    session.step()


def one_aside(session: Session, model: nn.Module, x: Tensor, y: Tensor) -> None:
    session.backward(loss_of(model, x, y) / 4)
    session.step(loss_of(model, x, y) * 0.75)


def zeroed_before(session: Session, model: nn.Module, x: Tensor, y: Tensor) -> None:
    model.zero_grad(set_to_none=False)
    session.step(loss_of(model, x, y))
    model.zero_grad(set_to_none=False)


def zeroed_to_none(session: Session, model: nn.Module, x: Tensor, y: Tensor) -> None:
    model.zero_grad()
    session.step(loss_of(model, x, y))
    model.zero_grad()


def as_function(session: Session, model: nn.Module, x: Tensor, y: Tensor) -> None:
    session.step(lambda x, y: loss_of(model, x, y), x, y)


WAYS: list[Callable[[Session, nn.Module, Tensor, Tensor], None]] = [
    own_backward, two_losses, one_aside, zeroed_before, zeroed_to_none, as_function,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_every_way_to_step_gives_the_same(way: Callable[..., None]) -> None:
    def script(session: Session, _: Worker) -> Tensor:
        model = mlp()
        session.manage(model, SGD(model.parameters(), lr=0.1, momentum=0.9))
        for x, y in session.batches(samples(), epochs=2, micro_batch=3):
            way(session, model, x, y)
        return flat(model)

    for trained in values(run(script, 2)):
        assert distance(trained, train(Recipe())) < 1e-10


class Odd(nn.Module):
    """Tied weights, a frozen layer, a layer that nothing uses, and one that only some samples use."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.frozen, self.unused, self.sometimes = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 2)
        self.last = nn.Linear(3, 2)
        self.frozen.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(torch.tanh(self.frozen(self.second(torch.tanh(self.first(x))))))
        chosen = x[:, 0] > 0.8
        if chosen.any():
            out = out + self.sometimes(x) * chosen[:, None]
        return out


def odd_model() -> nn.Module:
    model = Odd()
    with_values(model)
    return model


def test_tied_frozen_unused_and_sometimes_used_parameters_are_updated_as_in_one_process() -> None:
    recipe = Recipe(model=odd_model, optimizer=lambda ps: AdamW([p for p in ps if p.requires_grad], weight_decay=0.3))
    turn = iter(range(10**6))
    script = as_script(recipe, lambda session, _: force_plan(session, [next(turn) % 9]))
    one, other = values(run(script, 2))
    assert torch.equal(one, other)
    assert distance(one, train(recipe)) < 1e-10


def test_layers_frozen_between_epochs_are_frozen_everywhere() -> None:
    def train_epoch(model: nn.Module, epoch: int) -> None:
        next(model.parameters()).requires_grad_(epoch != 1)

    def script(session: Session, _: Worker) -> Tensor:
        model = mlp()
        session.manage(model, SGD(model.parameters(), lr=0.1, weight_decay=0.1))
        for epoch in session.epochs(3):
            train_epoch(model, epoch)
            for x, y in session.batches(samples()):
                session.step(loss_of(model, x, y))
        return flat(model)

    model = mlp()
    optimizer = SGD(model.parameters(), lr=0.1, weight_decay=0.1)
    x, y = samples().tensors
    for epoch in range(3):
        train_epoch(model, epoch)
        for at in global_batches(len(x), epoch):
            optimizer.zero_grad()
            backward(loss_of(model, x[at], y[at]))
            optimizer.step()
    for trained in values(run(script, 2)):
        assert distance(trained, flat(model)) < 1e-10


def test_running_statistics_are_averaged_by_samples_and_equal_on_all_members() -> None:
    def script(session: Session, _: Worker) -> Any:
        model = with_values(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)))
        session.manage(model, SGD(model.parameters(), lr=0.0))
        norm: Any = model[1]
        own: list[Tensor] = []
        for x, y in session.batches(samples(8)):
            loss = loss_of(model, x, y)
            own.append(norm.running_mean.clone() * len(x))
            session.step(loss)
        return norm.running_mean, norm.running_var, norm.num_batches_tracked, sum(own)

    (mean, var, count, own), (other_mean, other_var, _, other_own) = values(run(script, 2))
    assert torch.equal(mean, other_mean)
    assert torch.equal(var, other_var)
    assert distance(mean, (own + other_own) / 8) < 1e-12
    assert int(count) == 1


def test_a_model_in_bfloat16_and_autocast_trains_alike_on_all_members() -> None:
    def script(session: Session, _: Worker) -> Tensor:
        model = with_values(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)), torch.float32)
        session.manage(model, SGD(model.parameters(), lr=0.1))
        for x, y in session.batches(samples()):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                out = model(x.float())
            session.step(functional.mse_loss(out.float(), y.float()))
        return flat(model)

    one, other = values(run(script, 2))
    alone = values(run(script, 1))[0]
    assert torch.equal(one, other)
    assert distance(one, alone) < 0.02  # rounding of products to 8 bits depends on the split
