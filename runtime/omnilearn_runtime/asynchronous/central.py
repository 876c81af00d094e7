"""The server's own copy of what is trained: collects gradients in slots and updates with them.

Knows nothing of members. The script's objects stay with the script, which computes on them at the same time.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from torch.optim import Optimizer

from omnilearn_core.api.strategy import GradientType
from omnilearn_runtime.buckets import Buckets
from omnilearn_runtime.managed import Managed, UnsuitableError

from .layout import Flat, Layout
from .policies import Slot


@dataclass(slots=True)
class Gradient:
    """The mean gradient of some samples, what it weighs, and which parameters it touches."""

    flat: Flat
    weight: float
    touched: Sequence[bool]
    finite: bool = True


def check_suitable(managed: Managed) -> None:
    """Raise UnsuitableError for what cannot be trained asynchronously."""
    if managed.before_update is not None:
        raise UnsuitableError(
            "before_update cannot be used with the strategy Asynchronous: the server updates a copy of the model that "
            "the function does not know; use clip_norm to clip gradients, or another strategy"
        )
    if managed.scaler is not None:
        raise UnsuitableError(
            "a gradient scaler cannot be used with the strategy Asynchronous: the server's scale would not be that of "
            "a gradient that is on its way; use bfloat16, which needs none"
        )


def copy_of(managed: Managed) -> Managed:
    """Return a copy of all managed objects, with the links among them."""
    linked = (managed.models, managed.optimizers, managed.schedulers, managed.extra)
    try:
        models, optimizers, schedulers, extra = copy.deepcopy(linked)
    except (TypeError, RuntimeError, AttributeError) as error:
        raise UnsuitableError(
            f"the model cannot be copied ({error}), which the server of the strategy Asynchronous needs: keep what "
            "copy.deepcopy refuses out of the models, optimizers and schedulers"
        ) from error
    for optimizer in optimizers.values():
        # It has been stepped before, or will be: torch would warn about a scheduler that comes first.
        optimizer._opt_called = True  # type: ignore[attr-defined]
    for scheduler in schedulers.values():
        scheduler._step_count = max(2, getattr(scheduler, "_step_count", 2))
    return replace(managed, models=models, optimizers=optimizers, schedulers=schedulers, extra=extra)


class Central:
    """The model that counts, as long as a pass lasts."""

    def __init__(self, managed: Managed, gradients: GradientType) -> None:
        self.managed = copy_of(managed)
        trainable = self.managed.trainable()
        buckets = Buckets([parameter for _, parameter in trainable], [name for name, _ in trainable])
        self.layout = Layout(self.managed, buckets, gradients)
        self._slots: dict[Slot, Gradient] = {}
        self._spare: list[Flat] = []
        self._mean: Flat | None = None

    def take(self) -> Flat:
        """Return a place to receive a gradient in."""
        try:
            return self._spare.pop()
        except IndexError:
            return self.layout.new_gradient(wire=False)

    def give_back(self, flat: Flat) -> None:
        """Take a place back that nobody uses any more."""
        self._spare.append(flat)

    def fold(self, slot: Slot, gradient: Gradient) -> None:
        """Add a gradient to a slot, which holds the weighted mean of what is in it."""
        self.layout.add_statistics(gradient.flat.parts[-1])
        there = self._slots.get(slot)
        if there is None:
            self._slots[slot] = gradient
            return
        there.weight += gradient.weight
        part = gradient.weight / there.weight if there.weight else 0.0
        for mean, each in zip(there.flat.parts[:-1], gradient.flat.parts, strict=False):
            mean.lerp_(each, part)
        there.touched = [a or b for a, b in zip(there.touched, gradient.touched, strict=True)]
        self.give_back(gradient.flat)

    def empty(self, slot: Slot) -> None:
        """Forget what is in a slot."""
        self.give_back(self._slots.pop(slot).flat)

    def rename(self, old: Slot, new: Slot) -> None:
        """Let a slot have another name."""
        self._slots[new] = self._slots.pop(old)

    def apply(self, slots: Sequence[Slot], rate: float) -> None:
        """Update with the mean of the slots' means."""
        gradients = [self._slots[slot] for slot in slots]
        touched = [any(flags) for flags in zip(*(each.touched for each in gradients), strict=True)]
        flat = gradients[0].flat if len(gradients) == 1 else self._mean_of(gradients)
        self.layout.give_gradient(flat, touched)
        with _slower(list(self.managed.optimizers.values()), rate):
            self.managed.update()
        for _, parameter in self.managed.trainable():
            parameter.grad = None

    def _mean_of(self, gradients: Sequence[Gradient]) -> Flat:
        mean = self._mean = self._mean or self.layout.new_gradient(wire=False)
        for number, place in enumerate(mean.parts[:-1]):
            place.copy_(gradients[0].flat.parts[number])
            for each in gradients[1:]:
                place.add_(each.flat.parts[number])
            place.div_(len(gradients))
        return mean


@contextmanager
def _slower(optimizers: Sequence[Optimizer], rate: float) -> Iterator[None]:
    """Lower all learning rates for a while."""
    if rate == 1.0:
        yield
        return
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    rates = [group["lr"] for group in groups]
    for group, before in zip(groups, rates, strict=True):
        group["lr"] = before * rate
    try:
        yield
    finally:
        for group, before in zip(groups, rates, strict=True):
            group["lr"] = before
