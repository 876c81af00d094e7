"""Gradient sums: weights, the user's own zero_grad and backward, odd parameters, half precision."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import Parameter

from omnilearn_runtime import buckets as module
from omnilearn_runtime.buckets import Buckets
from omnilearn_runtime.managed import UnsuitableError


def buckets_of(model: nn.Module) -> Buckets:
    named = [(name, each) for name, each in model.named_parameters() if each.requires_grad]
    return Buckets([each for _, each in named], [name for name, _ in named])


def sums(buckets: Buckets) -> dict[str, Tensor]:
    """Return the sums by parameter, of those that have any."""
    found = {}
    for bucket in buckets.buckets:
        for index, view, touched in zip(bucket.indices, bucket.views, bucket.touched, strict=True):
            if touched:
                found[buckets.names[index]] = view.clone()
    return found


def backward(result: Tensor) -> None:
    result.sum().backward()  # type: ignore[no-untyped-call]


def one() -> tuple[Parameter, Buckets]:
    parameter = Parameter(torch.tensor([1.0, 2.0], dtype=torch.float64))
    return parameter, Buckets([parameter], ["p"])


@settings(max_examples=30, deadline=None)
@given(parts=st.lists(st.tuples(st.floats(-5, 5), st.integers(0, 7)), min_size=1, max_size=5))
def test_the_sum_is_that_of_weight_times_gradient(parts: list[tuple[float, int]]) -> None:
    parameter, buckets = one()
    for factor, weight in parts:
        buckets.backward(partial(backward, parameter * factor), float(weight), None)
    expected = sum(factor * weight for factor, weight in parts)
    assert torch.allclose(sums(buckets)["p"], torch.full((2,), expected, dtype=torch.float64), atol=1e-12)
    assert parameter.grad is None


@pytest.mark.parametrize("to_none", [True, False])
def test_zero_grad_of_the_user_does_not_touch_the_sums(to_none: bool) -> None:
    model = nn.Linear(2, 1)
    buckets = buckets_of(model)
    for _ in range(2):
        model.zero_grad(set_to_none=to_none)
        buckets.backward(lambda: backward(model(torch.ones(1, 2))), 1.0, None)
        model.zero_grad(set_to_none=to_none)
    assert torch.equal(sums(buckets)["weight"], torch.full((1, 2), 2.0))


def test_a_backward_of_ones_own_is_folded_with_the_next() -> None:
    parameter, buckets = one()
    backward(parameter * 3)
    assert not sums(buckets)
    buckets.backward(lambda: None, 2.0, None)
    assert torch.equal(sums(buckets)["p"], torch.full((2,), 6.0, dtype=torch.float64))


def test_a_gradient_without_weight_counts_nothing_even_if_it_is_no_number() -> None:
    parameter, buckets = one()
    buckets.backward(lambda: backward(parameter * 3), 1.0, None)
    buckets.backward(lambda: backward(parameter * float("nan")), 0.0, None)
    assert torch.equal(sums(buckets)["p"], torch.full((2,), 3.0, dtype=torch.float64))


def test_tied_parameters_are_summed_once_and_unused_or_frozen_ones_not_at_all() -> None:
    model = nn.ModuleDict({"a": nn.Linear(2, 2, False), "b": nn.Linear(2, 2, False), "c": nn.Linear(2, 2, False)})
    model["b"].weight = model["a"].weight
    model["frozen"] = nn.Linear(2, 2).requires_grad_(False)
    buckets = buckets_of(model)
    x = torch.ones(1, 2)
    buckets.backward(lambda: backward(model["a"](x) + model["b"](x) + model["frozen"](x)), 1.0, None)
    assert buckets.names == ["a.weight", "c.weight"]
    assert {name: float(each.sum()) for name, each in sums(buckets).items()} == {"a.weight": 8.0}
    assert buckets.touched().tolist() == [1.0, 0.0]


def test_what_nobody_touched_gets_no_gradient_and_the_rest_its_mean() -> None:
    model = nn.ModuleDict({"a": nn.Linear(1, 1, False), "c": nn.Linear(1, 1, False)})
    buckets = buckets_of(model)
    buckets.backward(lambda: backward(model["a"](torch.ones(1, 1))), 6.0, None)
    for bucket in buckets.buckets:
        bucket.give(bucket.copy(), 4.0, [buckets.names[index] == "a.weight" for index in bucket.indices])
    gradients = {name: each.grad for name, each in model.named_parameters()}
    assert str(gradients) == "{'a.weight': tensor([[1.5000]]), 'c.weight': None}"


def test_sums_of_half_precision_have_single_precision() -> None:
    parameter = Parameter(torch.ones(3, dtype=torch.bfloat16))
    buckets = Buckets([parameter], ["p"])
    for _ in range(300):
        buckets.backward(lambda: backward(parameter), 1.0, None)
    assert sums(buckets)["p"].dtype is torch.float32
    assert sums(buckets)["p"].tolist() == [300.0] * 3  # bfloat16 would stop at 256
    buckets.buckets[0].give(buckets.buckets[0].copy(), 300.0, [True])
    assert parameter.grad is not None
    assert parameter.grad.dtype is torch.bfloat16


def test_a_sparse_gradient_is_refused_by_name() -> None:
    layer = nn.Embedding(3, 2, sparse=True)
    buckets = buckets_of(layer)
    with pytest.raises(UnsuitableError, match="the gradient of weight is sparse"):
        buckets.backward(lambda: backward(layer(torch.tensor([1]))), 1.0, None)


def test_buckets_become_ready_in_order_while_backward_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUCKET_BYTES", 8)
    model = nn.Sequential(nn.Linear(2, 2, False), nn.Tanh(), nn.Linear(2, 2, False))
    buckets = buckets_of(model)
    ready: list[int] = []
    buckets.backward(lambda: backward(model(torch.ones(1, 2))), 1.0, ready.append)
    assert ready == list(range(len(buckets.buckets)))
    assert len(ready) == 2


def test_a_gradient_that_comes_after_its_bucket_was_reduced_is_an_error() -> None:
    parameter, buckets = one()

    def two_passes() -> None:
        backward(parameter)
        backward(parameter)

    with pytest.raises(RuntimeError, match="came after its bucket was reduced"):
        buckets.backward(two_passes, 1.0, lambda _: None)


def test_a_copy_does_not_change_with_the_sums() -> None:
    parameter, buckets = one()
    buckets.backward(lambda: backward(parameter), 1.0, None)
    copy = buckets.buckets[0].copy()
    buckets.backward(lambda: backward(parameter), 1.0, None)
    assert copy.tolist() == [1.0, 1.0]
