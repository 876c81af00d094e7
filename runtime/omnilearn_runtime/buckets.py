"""Gradient sums in flat buckets: collected by hooks, reduced from copies, so that a regroup loses nothing.

The session's backward moves every gradient, times the weight of its micro-batch, into the sums of this worker
(`Buckets.fold`). The user's own `zero_grad` or backward cannot disturb them, because `p.grad` is only a visitor here.
When all of a bucket's gradients are in and no micro-batch is left to come, its copy may be reduced while backward goes
on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from .managed import UnsuitableError

# Large enough to use a network well, small enough to overlap with backward.
BUCKET_BYTES = 8 * 2**20
_HALVES = (torch.float16, torch.bfloat16)


class Bucket:
    """Some parameters' gradients in one flat tensor."""

    def __init__(self, members: Sequence[tuple[int, Parameter]], dtype: torch.dtype) -> None:
        self.indices = [index for index, _ in members]
        self.parameters = [parameter for _, parameter in members]
        self._sizes = [parameter.numel() for parameter in self.parameters]
        self.size = sum(self._sizes)
        self.sums = torch.zeros(self.size, dtype=dtype, device=self.parameters[0].device)
        self.views = self.views_of(self.sums)
        self.touched = [False] * len(self.parameters)
        self._spare: Tensor | None = None

    def views_of(self, flat: Tensor) -> list[Tensor]:
        """Return the parts of a flat tensor, each with its parameter's shape."""
        parts = torch.split(flat, self._sizes)
        return [part.view(parameter.shape) for part, parameter in zip(parts, self.parameters, strict=True)]

    def add(self, place: int, gradient: Tensor, weight: float) -> None:
        """Add a gradient, times its weight, to the sums."""
        view = self.views[place]
        if weight == 0:
            # The mean over nothing has no gradient that counts: often it is not even a number.
            gradient = torch.zeros_like(gradient)
        if self.touched[place]:
            view.add_(gradient, alpha=weight)
        else:
            torch.mul(gradient, weight, out=view) if gradient.dtype == view.dtype else view.copy_(gradient).mul_(weight)
            self.touched[place] = True

    def copy(self, rider: Tensor | None = None, *, on_device: bool = False) -> Tensor:
        """Return a copy of the sums, to be reduced: on the CPU, unless it can be reduced on the device.

        Behind them is the rider, if there is one.
        """
        self.zero_untouched()
        if self.sums.device.type != "cpu" and on_device:
            return self.sums.clone()
        size = self.size + (0 if rider is None else len(rider))
        buffer, self._spare = self._spare, None
        if buffer is None or len(buffer) != size:
            # Pinned, so that the way back is fast, too. Written for mixed CPU and CUDA members; not run on CUDA yet.
            pinned = self.sums.device.type != "cpu"
            buffer = torch.empty(size, dtype=self.sums.dtype, device="cpu", pin_memory=pinned)
        buffer[: self.size].copy_(self.sums)
        if rider is not None:
            buffer[self.size :].copy_(rider)
        return buffer

    def zero_untouched(self) -> None:
        """Let the sums of parameters without a gradient be zero, and not what an earlier step has left."""
        for view, touched in zip(self.views, self.touched, strict=True):
            if not touched:
                view.zero_()

    def give(self, reduced: Tensor, divisor: float, wanted: Sequence[bool]) -> None:
        """Hand the mean gradients to the parameters; None to those that nobody had a gradient for."""
        reduced.div_(divisor)
        there = reduced if reduced.device == self.sums.device else reduced.to(self.sums.device, non_blocking=True)
        for parameter, view, is_wanted in zip(self.parameters, self.views_of(there), wanted, strict=True):
            parameter.grad = view.to(parameter.dtype) if is_wanted else None

    def recycle(self, reduced: Tensor) -> None:
        """Take back a buffer whose operation has completed; an abandoned one is never used again."""
        if reduced.device.type == "cpu" and self.sums.device.type == "cpu":
            self._spare = reduced

    def clear(self) -> None:
        """Forget the sums; the parameters' gradients, too."""
        self.touched = [False] * len(self.parameters)
        for parameter in self.parameters:
            parameter.grad = None


class Buckets:
    """All trainable parameters of a model, in the order in which backward usually reaches them."""

    def __init__(self, parameters: Iterable[Parameter], names: Sequence[str]) -> None:
        self.parameters, self.names = list(parameters), list(names)
        self.buckets = [Bucket(members, dtype) for members, dtype in _grouped(self.parameters)]
        self._places: dict[Tensor, tuple[int, int]] = {
            parameter: (number, place)
            for number, bucket in enumerate(self.buckets)
            for place, parameter in enumerate(bucket.parameters)
        }
        hook: Any = Parameter.register_post_accumulate_grad_hook
        self._hooks = [hook(each, self._on_gradient) for each in self.parameters]
        self._weight: float | None = None
        self._ready: Callable[[int], None] | None = None
        self._missing: list[int] = []
        self._fired = 0

    def close(self) -> None:
        """Remove the hooks."""
        for hook in self._hooks:
            hook.remove()

    def backward(self, run: Callable[[], object], weight: float, ready: Callable[[int], None] | None) -> None:
        """Run a backward pass and fold its gradients, times ``weight``; those of an earlier backward, too.

        ``ready(n)`` is called as soon as bucket n, and all before it, will not change any more.
        """
        self._weight, self._ready, self._fired = weight, ready, 0
        self._missing = [len(bucket.parameters) for bucket in self.buckets]
        try:
            run()
            self.fold(weight)
        finally:
            self._weight = self._ready = None

    def fold(self, weight: float) -> None:
        """Move the gradients that are there to the sums."""
        for parameter, (number, place) in self._places.items():
            if parameter.grad is not None:
                self._move(parameter, number, place, weight)

    def discard_gradients(self) -> None:
        """Drop what an unfinished backward has left; the sums stay."""
        for parameter in self.parameters:
            parameter.grad = None

    def clear(self) -> None:
        """Forget all sums."""
        for bucket in self.buckets:
            bucket.clear()

    def touched(self) -> Tensor:
        """Return one number per parameter: 1 where this worker has a gradient."""
        flags = torch.zeros(len(self.parameters), dtype=torch.float64)
        for bucket in self.buckets:
            flags[bucket.indices] = torch.tensor(bucket.touched, dtype=torch.float64)
        return flags

    def _on_gradient(self, parameter: Tensor) -> None:
        """Fold a gradient as soon as it is there, if it is the session's backward that made it."""
        if self._weight is None:
            return
        number, place = self._places[parameter]
        if number < self._fired:
            raise RuntimeError(
                f"the gradient of {self.names[self.buckets[number].indices[place]]} came after its bucket was reduced: "
                "the model runs backward in several passes; use session.backward(loss) and then session.step()"
            )
        self._move(parameter, number, place, self._weight)
        self._missing[number] -= 1
        while self._ready is not None and self._fired < len(self.buckets) and self._missing[self._fired] <= 0:
            self._ready(self._fired)
            self._fired += 1

    def _move(self, parameter: Tensor, number: int, place: int, weight: float) -> None:
        gradient = parameter.grad
        if gradient is None:
            return
        if gradient.is_sparse:
            name = self.names[self.buckets[number].indices[place]]
            raise UnsuitableError(f"the gradient of {name} is sparse, which cannot be reduced: use sparse=False")
        with torch.no_grad():
            self.buckets[number].add(place, gradient, weight)
        parameter.grad = None


def _grouped(parameters: Sequence[Parameter]) -> list[tuple[list[tuple[int, Parameter]], torch.dtype]]:
    """Group the parameters, last first, by dtype and device, into buckets of about BUCKET_BYTES."""
    groups: list[tuple[list[tuple[int, Parameter]], torch.dtype]] = []
    open_groups: dict[tuple[torch.dtype, torch.device], tuple[list[tuple[int, Parameter]], int]] = {}
    for index, parameter in reversed(list(enumerate(parameters))):
        # Sums of many small numbers need more digits than half precision has.
        dtype = torch.float32 if parameter.dtype in _HALVES else parameter.dtype
        key = (dtype, parameter.device)
        members, filled = open_groups.get(key, ([], 0))
        size = parameter.numel() * dtype.itemsize
        if members and filled + size > BUCKET_BYTES:
            members, filled = [], 0
        if not members:
            groups.append((members, dtype))
        members.append((index, parameter))
        open_groups[key] = (members, filled + size)
    return groups
