"""What a session manages: every unsuitable thing gets its sentence, and the state survives its way; statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import LBFGS, SGD, Adam
from torch.optim.lr_scheduler import ReduceLROnPlateau, StepLR

from omnilearn_runtime import codec
from omnilearn_runtime.managed import Managed, UnsuitableError, manage
from omnilearn_runtime.running import RunningStatistics


def linear() -> nn.Module:
    return nn.Linear(2, 2)


def sgd(model: nn.Module) -> SGD:
    return SGD(model.parameters(), lr=0.1)


def with_complex() -> Managed:
    model = nn.Module()
    model.weight = nn.Parameter(torch.zeros(2, dtype=torch.complex64))
    return manage(model, sgd(model), None, None)


def of_another() -> Managed:
    return manage(linear(), sgd(linear()), None, None)


def with_plateau() -> Managed:
    model = linear()
    optimizer = sgd(model)
    return manage(model, optimizer, ReduceLROnPlateau(optimizer), None)


def lazy() -> Managed:
    model = nn.Sequential(nn.LazyLinear(2), nn.Linear(2, 2))
    return manage(model, SGD(model[1].parameters(), lr=0.1), None, None)


UNSUITABLE: list[tuple[Callable[[], Managed], str]] = [
    (lambda: manage([1], sgd(linear()), None, None), "got a list as model: give it a Module"),
    (lambda: manage(linear(), None, None, None), "got a NoneType as optimizer: give it a Optimizer"),
    (lambda: manage(nn.Embedding(2, 2, sparse=True), sgd(linear()), None, None), "use sparse=False"),
    (lambda: manage(linear(), LBFGS(linear().parameters()), None, None), "LBFGS evaluates the loss several times"),
    (of_another, "updates parameters that are not of the managed model"),
    (with_complex, "is complex, which cannot be reduced"),
    (with_plateau, "ReduceLROnPlateau needs a measurement"),
    (lazy, "run one batch through the lazy model"),
]


@pytest.mark.filterwarnings("ignore:Lazy modules")
@pytest.mark.parametrize(("make", "sentence"), UNSUITABLE)
def test_what_cannot_be_managed_gets_its_sentence(make: Callable[[], Managed], sentence: str) -> None:
    with pytest.raises(UnsuitableError, match=sentence):
        make()


def test_extra_must_be_a_dictionary_or_have_a_state() -> None:
    model = linear()
    with pytest.raises(UnsuitableError, match=r"extra\['best'\] is a int"):
        manage(model, sgd(model), None, {"best": 3})


def whole() -> tuple[nn.Sequential, Managed]:
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    optimizer = Adam(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    extra: dict[str, Any] = {"seen": {"best": 1.0, "names": ["a"], "mean": torch.ones(2)}}
    return model, manage(model, optimizer, StepLR(optimizer, 1), extra, scaler=scaler)


def test_the_state_of_everything_survives_its_way_to_a_joiner() -> None:
    model, managed = whole()
    for _ in range(2):
        managed.scaler.scale(model(torch.randn(4, 2)).sum()).backward()
        managed.update()
        managed.schedule()
    _, joiner = whole()
    assert joiner.fingerprint() == managed.fingerprint()
    joiner.load(codec.unpack(codec.from_bytes_tensor(codec.to_bytes_tensor(codec.pack(managed.to_tree())))))
    assert joiner.parameter_hash() == managed.parameter_hash()
    given, got = managed.to_tree(), joiner.to_tree()
    assert str(given["optimizers"]) == str(got["optimizers"])
    assert given["schedulers"] == got["schedulers"]
    assert str(given["extra"]) == str(got["extra"])


def test_evaluating_puts_every_module_back_as_it_was() -> None:
    model, managed = whole()
    model[1].eval()
    with managed.evaluating():
        assert not any(module.training for module in model.modules())
    assert (model.training, model[1].training) == (True, False)


# Running statistics


def test_statistics_become_the_average_by_samples_and_the_counter_counts_steps() -> None:
    model, managed = whole()
    statistics = RunningStatistics(managed)
    model(torch.randn(3, 2))
    model(torch.randn(3, 2))
    mine = statistics.contribution(6)
    assert mine is not None
    statistics.apply(mine + 2 * torch.ones_like(mine), 8)
    norm: Any = model[1]
    assert torch.allclose(norm.running_mean.double(), mine[:3] / 8 + 0.25, atol=1e-6)
    assert int(norm.num_batches_tracked) == 1


def test_a_skipped_step_takes_statistics_back() -> None:
    model, managed = whole()
    statistics = RunningStatistics(managed)
    model(torch.randn(3, 2))
    statistics.apply(None, 3)
    norm: Any = model[1]
    assert norm.running_mean.tolist() == [0.0] * 3
    assert int(norm.num_batches_tracked) == 0


def test_what_is_saved_are_the_statistics_as_committed_and_the_own_ones_stay() -> None:
    model, managed = whole()
    statistics = RunningStatistics(managed)
    model(torch.randn(3, 2))
    norm: Any = model[1]
    own = norm.running_mean.clone()
    tree = statistics.as_committed(managed.to_tree)
    assert tree["models"]["model"]["1.running_mean"].tolist() == [0.0] * 3
    assert torch.equal(norm.running_mean, own)


def test_a_model_without_statistics_contributes_none() -> None:
    model = linear()
    assert RunningStatistics(manage(model, sgd(model), None, None)).contribution(3) is None
