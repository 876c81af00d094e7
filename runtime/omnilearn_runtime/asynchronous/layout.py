"""How parameters and gradients lie in flat buffers: bucket after bucket, then running statistics. Same on both sides.

A gradient is sent as the mean over its samples, so that half precision can hold it; the weight goes with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from omnilearn_core.api.strategy import GradientType
from omnilearn_runtime.buckets import Buckets
from omnilearn_runtime.managed import Managed

_TYPES = {GradientType.BFLOAT16: torch.bfloat16, GradientType.FLOAT16: torch.float16}
_WIDER = dict.fromkeys(_TYPES.values(), torch.float32)


class Flat:
    """Numbers of one model: one flat tensor for each bucket, and the statistics."""

    def __init__(self, parts: Sequence[Tensor]) -> None:
        self.parts = list(parts)

    @property
    def views(self) -> list[memoryview]:
        """The same numbers as bytes, without those parts that are empty."""
        return [part.view(torch.uint8).numpy().data for part in self.parts if part.numel()]

    def is_finite(self) -> bool:
        """Tell whether all numbers are finite, as far as their sum tells."""
        # A sum of many halves is none, so it is made of larger numbers.
        return all(bool(torch.isfinite(part.sum(dtype=_WIDER.get(part.dtype)))) for part in self.parts)


class Layout:
    """Of what the flat tensors consist."""

    def __init__(self, managed: Managed, buckets: Buckets, gradients: GradientType) -> None:
        self._managed = managed
        self.buckets = buckets
        self._gradients = _TYPES.get(gradients)
        self._statistics = [*managed.running_statistics(), *managed.batch_counters()]
        self._count = sum(each.numel() for each in self._statistics)

    def describe(self) -> list[object]:
        """Return what has to be equal on both sides."""
        sizes = [[bucket.sums.numel(), str(bucket.sums.dtype)] for bucket in self.buckets.buckets]
        return [sizes, self._count, str(self._gradients)]

    def new_gradient(self, *, wire: bool) -> Flat:
        """Return a place for a gradient, as it is sent or as it is applied."""
        return self._new(self._gradients if wire else None)

    def new_parameters(self) -> Flat:
        """Return a place for parameters."""
        return self._new(None)

    @property
    def converts(self) -> bool:
        """True if gradients are sent in other numbers than they are applied in."""
        return self._gradients is not None

    def _new(self, dtype: torch.dtype | None) -> Flat:
        parts = [torch.zeros(each.sums.numel(), dtype=dtype or each.sums.dtype) for each in self.buckets.buckets]
        return Flat([*parts, torch.zeros(self._count, dtype=torch.float64)])

    def statistics(self) -> Tensor:
        """Return the running statistics as they are now, flat."""
        if not self._statistics:
            return torch.zeros(0, dtype=torch.float64)
        return torch.cat([each.detach().reshape(-1).to("cpu", torch.float64) for each in self._statistics])

    def add_statistics(self, change: Tensor) -> None:
        """Change the running statistics by what a worker's forward passes have changed."""
        if self._statistics:
            self._set_statistics(self.statistics() + change)

    def _set_statistics(self, values: Tensor) -> None:
        with torch.no_grad():
            parts = torch.split(values, [each.numel() for each in self._statistics])
            for each, part in zip(self._statistics, parts, strict=True):
                each.copy_(part.reshape(each.shape))

    def read_parameters(self, out: Flat) -> None:
        """Copy the model's parameters and statistics."""
        with torch.no_grad():
            for bucket, place in zip(self.buckets.buckets, out.parts, strict=False):
                _gather([each.detach() for each in bucket.parameters], place)
            out.parts[-1].copy_(self.statistics())

    def write_parameters(self, flat: Flat) -> None:
        """Give the model parameters and statistics."""
        with torch.no_grad():
            for bucket, part in zip(self.buckets.buckets, flat.parts, strict=False):
                for parameter, values in zip(bucket.parameters, bucket.views_of(part), strict=True):
                    parameter.copy_(values)
            if self._statistics:
                self._set_statistics(flat.parts[-1])

    def read_gradient(self, weight: float, statistics_before: Tensor, out: Flat) -> None:
        """Write the mean of the collected gradients, and the change of the statistics."""
        with torch.no_grad():
            for bucket, place in zip(self.buckets.buckets, out.parts, strict=False):
                bucket.zero_untouched()
                if bucket.sums.device.type == "cpu" and place.dtype == bucket.sums.dtype:
                    torch.div(bucket.sums, weight or 1.0, out=place)
                else:
                    place.copy_(bucket.sums / (weight or 1.0))
            out.parts[-1].copy_(self.statistics() - statistics_before)

    def give_gradient(self, flat: Flat, touched: Sequence[bool]) -> None:
        """Hand a mean gradient to the parameters; None to those that it does not touch."""
        for bucket, part in zip(self.buckets.buckets, flat.parts, strict=False):
            there = part if part.device == bucket.sums.device else part.to(bucket.sums.device)
            for index, parameter, view in zip(bucket.indices, bucket.parameters, bucket.views_of(there), strict=True):
                parameter.grad = view.to(parameter.dtype) if touched[index] else None


def _gather(parts: Sequence[Tensor], place: Tensor) -> None:
    flat = [part.reshape(-1) for part in parts]
    if all(part.dtype == place.dtype and part.device == place.device for part in flat):
        torch.cat(flat, out=place)
    else:
        place.copy_(torch.cat([part.to(place.dtype) for part in flat]))
