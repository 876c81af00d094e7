"""Local SGD: a worker takes steps of its own through its part of a round; then the models are merged.

What is reduced is how far each worker has come from the model of the last merge, times its weight. So a worker that is
lost costs what it had computed and nothing else, and the others keep where they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from omnilearn_core.api.strategy import LocalSGD, Outer
from omnilearn_runtime.element import Whole
from omnilearn_runtime.managed import Managed
from omnilearn_runtime.reduction import Reduction

from .learner import Learner

OUTER = "outer"


class LocalLearner(Learner):
    """The model on its own way since the last merge, and the model of that merge."""

    overlaps = False

    def __init__(self, managed: Managed, options: LocalSGD) -> None:
        super().__init__(managed)
        self._options = options
        self._outer = _outer_optimizer(managed, options)
        self._merged = self._copies()
        self._seen: set[int] = set()
        self._samples, self._weight, self._weighed = 0, 0.0, False

    def at_once(self, pending: int) -> int:
        """Return how many samples are left of the present local step."""
        return min(pending, self._options.batch - self._samples)

    def backward(
        self, run: Callable[[], object], samples: int, weight: float, ready: Callable[[int], None] | None
    ) -> None:
        """Add gradients to those of the present local step; take it when all its samples are in."""
        if self._weighed:
            # A generation was lost after this worker had weighed its way: it goes on from there.
            self.buckets.clear()
            self._weighed = False
        super().backward(run, samples, weight, None)
        self._samples += samples
        self._weight += weight
        if self._samples >= self._options.batch:
            self._step()

    def weigh(self, weight: float) -> float:
        """Put how far this worker has come, times its weight, into the sums; return that weight."""
        self._step()
        self.buckets.clear()
        self._weighed = True
        own = float(self.local_steps) ** self._options.exponent if self.local_steps else 0.0
        if own:
            with torch.no_grad():
                for number, place, parameter, merged in self._pairs():
                    if self.buckets.buckets[number].indices[place] in self._seen:
                        self.buckets.buckets[number].add(place, merged - parameter, own)
        return own

    def update(self, reduction: Reduction, whole: Whole, statistics: Tensor | None) -> bool:
        """Go back to the last merge, and from there where all workers together have come to."""
        self._go_back()
        return super().update(reduction, whole, statistics)

    def forget(self) -> None:
        """Go back to the last merge."""
        self._go_back()
        super().forget()

    def refresh(self) -> None:
        """Follow the script if it has frozen or unfrozen parameters."""
        before = self.buckets
        super().refresh()
        if self.buckets is not before:
            self._merged = self._copies()

    def to_tree(self) -> dict[str, Any]:
        """Return the state after the last merge. Momentum is each worker's own: it is this one's, as it is now."""
        if not self.local_steps:
            return super().to_tree() | {OUTER: self._outer.state_dict()}
        now = self._copies()
        with torch.no_grad():
            self._set(self._merged)
            tree = super().to_tree() | {OUTER: self._outer.state_dict()}
            models = {
                name: {key: each.clone() for key, each in states.items()} for name, states in tree["models"].items()
            }
            self._set(now)
        return tree | {"models": models}

    def load(self, tree: dict[str, Any]) -> None:
        """Become that state."""
        super().load(tree)
        self._outer.load_state_dict(tree[OUTER])
        self._merged = self._copies()
        self._reset()

    def _apply(self, *, finite: bool, counts: bool) -> None:
        """Take the mean of all ways as a gradient."""
        if finite:
            self._outer.step()
            self._merged = self._copies()

    def _step(self) -> None:
        """Take a local step with what was collected for it, if anything was."""
        if not self._samples:
            return
        for bucket in self.buckets.buckets:
            bucket.give(bucket.sums, self._weight or 1.0, bucket.touched)
            self._seen.update(index for index, seen in zip(bucket.indices, bucket.touched, strict=True) if seen)
        self.managed.update()
        self.buckets.clear()
        self._samples, self._weight = 0, 0.0
        self.local_steps += 1

    def _go_back(self) -> None:
        with torch.no_grad():
            self._set(self._merged)
        self._reset()

    def _reset(self) -> None:
        self._samples, self._weight, self._weighed, self.local_steps = 0, 0.0, False, 0
        self._seen = set()

    def _copies(self) -> list[Tensor]:
        return [parameter.detach().clone() for parameter in self.buckets.parameters]

    def _set(self, values: list[Tensor]) -> None:
        for parameter, value in zip(self.buckets.parameters, values, strict=True):
            parameter.copy_(value)

    def _pairs(self) -> list[tuple[int, int, Tensor, Tensor]]:
        return [
            (number, place, self.buckets.parameters[index], self._merged[index])
            for number, bucket in enumerate(self.buckets.buckets)
            for place, index in enumerate(bucket.indices)
        ]


def _outer_optimizer(managed: Managed, options: LocalSGD) -> torch.optim.SGD:
    """Return the optimizer that takes the merged ways as gradients; without momentum, and at rate 1, it averages."""
    momentum = 0.0 if options.outer is Outer.NONE else options.outer_momentum_percent / 100
    return torch.optim.SGD(
        [parameter for _, parameter in managed.named_parameters()],
        lr=options.outer_rate,
        momentum=momentum,
        nesterov=options.outer is Outer.NESTEROV and momentum > 0,
    )
