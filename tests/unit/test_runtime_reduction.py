"""The control element rides in the last bucket: nothing is lost on the way, and nothing goes before its time."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from omnilearn_runtime.buckets import Buckets
from omnilearn_runtime.element import MOST_RIDERS, Kind, Part, thick, thin
from omnilearn_runtime.reduction import Reduction
from omnilearn_runtime.waiting import Ending


class TwoAlike:
    """A group of two members who say the same: every sum is the double."""

    rank, size, names, on_device = 0, 2, ("a", "b"), False

    def __init__(self) -> None:
        self.sent: list[Tensor] = []

    def all_reduce(self, tensor: Tensor) -> object:
        self.sent.append(tensor)
        tensor.mul_(2)
        return object()


class Calm:
    """A membership in which nothing happens."""

    def is_superseded(self, _: object) -> bool:
        return False

    def wait_for(self, *_: object) -> Ending:
        return Ending.COMPLETE


def reduced(dtype: torch.dtype, *, on_device: bool = False) -> tuple[TwoAlike, Reduction, Buckets, Tensor]:
    """Return a reduction that is closed, of a small model after one backward with a weight of 3."""
    model = nn.Linear(4, 2).to(dtype)
    buckets = Buckets(model.parameters(), ["weight", "bias"])
    group = TwoAlike()
    group.on_device = on_device
    reduction = Reduction(group, Calm(), buckets)  # type: ignore[arg-type]
    inputs = torch.ones(1, 4, dtype=dtype)
    buckets.backward(lambda: model(inputs).sum().backward(), 3.0, reduction.fire)
    assert not reduction.begun or on_device
    reduction.close(Part(Kind.STEP, 5, weight=3.0, loss=1.5, samples=3, checksum=2**40, touched=buckets.touched()))
    return group, reduction, buckets, model.weight


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_small_model_and_the_control_element_travel_in_one_operation(dtype: torch.dtype) -> None:
    group, reduction, _, weight = reduced(dtype)
    _, whole = reduction.finish()
    assert whole is not None
    assert len(group.sent) == 1
    assert (whole.weight, whole.loss, whole.samples, whole.checksum) == (6.0, 3.0, 6, 2**41)
    assert whole.agreed
    assert whole.touched == (True, True)
    assert reduction.give(whole)
    assert torch.equal(weight.grad, torch.ones_like(weight))  # type: ignore[arg-type]


def test_on_devices_the_control_element_travels_alone_and_as_it_is() -> None:
    group, reduction, _, _ = reduced(torch.float32, on_device=True)
    assert [each.dtype for each in group.sent] == [torch.float32, torch.float64]
    _, whole = reduction.finish()
    assert whole is not None
    assert whole.checksum == 2**41


def test_a_buffer_is_used_again_unless_there_are_other_members() -> None:
    _, reduction, buckets, _ = reduced(torch.float32)
    reduction.recycle()
    (bucket,) = buckets.buckets
    rider = torch.zeros(len(reduction._buffers[0]) - bucket.size)
    again = bucket.copy(rider)
    assert again is reduction._buffers[0]
    bucket.recycle(again)
    assert len(bucket.copy(torch.zeros(3))) == bucket.size + 3


@given(st.lists(st.floats(-(2.0**50), 2.0**50), min_size=1, max_size=60))
def test_numbers_of_any_size_keep_their_leading_digits_when_they_travel_thin(said: list[float]) -> None:
    thinned = torch.stack([thin(torch.tensor([each], dtype=torch.float64), 0) for each in said]).sum(0)
    assert float(thick(thinned, 0)) == pytest.approx(sum(said), abs=1e-6 * max(map(abs, said)) * len(said) + 1e-37)


@given(st.lists(st.integers(-(2**52), 2**52), min_size=1, max_size=60))
def test_whole_numbers_travel_thin_without_any_loss(said: list[int]) -> None:
    thinned = torch.stack([thin(torch.tensor([each], dtype=torch.float64), 0) for each in said]).sum(0)
    assert float(thick(thinned, 0)) == float(sum(said)) or abs(sum(said)) > 2**53


@pytest.mark.parametrize("huge", [2.0**60, 1e300, -(2.0**60), -1e300])
def test_what_is_too_large_stays_large(huge: float) -> None:
    found = float(thick(thin(torch.tensor([huge], dtype=torch.float64), 0), 0))
    assert found == pytest.approx(2.0**60 if huge > 0 else -(2.0**60))


def test_as_many_members_as_may_ride_add_up_exactly() -> None:
    most = torch.tensor([2.0**24 - 1], dtype=torch.float64)
    assert float(thick(thin(most, 0) * MOST_RIDERS, 0)) == float(most) * MOST_RIDERS
