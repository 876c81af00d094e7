"""Running statistics of normalisation layers, averaged over the members by their samples.

Each member's forward passes move its own running mean and variance. At every step they are replaced by the average over
all members, weighted by samples, so that all members stay equal. Batch statistics themselves (what BatchNorm normalises
by while training) remain those of a micro-batch: GroupNorm or LayerNorm do not depend on the split.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .managed import Managed


class RunningStatistics:
    """The statistics as committed, and this worker's own way from there."""

    def __init__(self, managed: Managed) -> None:
        self._tensors = managed.running_statistics()
        self._counters = managed.batch_counters()
        self._committed: list[Tensor] = []
        self._counted: list[Tensor] = []
        self.commit()

    @property
    def exist(self) -> bool:
        """True if the model has any."""
        return bool(self._tensors)

    def commit(self) -> None:
        """Note what there is now as what all members have."""
        self._committed = [each.detach().clone() for each in self._tensors]
        self._counted = [each.detach().clone() for each in self._counters]

    def contribution(self, samples: int) -> Tensor | None:
        """Return this worker's statistics times its samples, flat; None if the model has none."""
        if not self._tensors:
            return None
        return torch.cat([each.detach().reshape(-1).to("cpu", torch.float64) for each in self._tensors]) * samples

    def apply(self, total: Tensor | None, samples: int) -> None:
        """Take the average of all members; or go back to what was committed, if the step is skipped."""
        with torch.no_grad():
            if total is not None and samples > 0:
                parts = torch.split(total / samples, [each.numel() for each in self._tensors])
                for each, part in zip(self._tensors, parts, strict=True):
                    each.copy_(part.reshape(each.shape))
                for counter, counted in zip(self._counters, self._counted, strict=True):
                    counter.copy_(counted + 1)
                self.commit()
            else:
                self.restore()

    def as_committed(self, read: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return what ``read()`` gives while the statistics are as committed, whatever has been computed since."""
        if not self._tensors:
            return read()
        own = [each.detach().clone() for each in (*self._tensors, *self._counters)]
        with torch.no_grad():
            self.restore()
            tree = {
                name: {key: {k: v.clone() for k, v in states.items()} for key, states in part.items()}
                if name == "models"
                else part
                for name, part in read().items()
            }
            for each, mine in zip((*self._tensors, *self._counters), own, strict=True):
                each.copy_(mine)
        return tree

    def restore(self) -> None:
        """Go back to what was committed."""
        with torch.no_grad():
            for each, committed in zip(self._tensors, self._committed, strict=True):
                each.copy_(committed)
            for counter, counted in zip(self._counters, self._counted, strict=True):
                counter.copy_(counted)
