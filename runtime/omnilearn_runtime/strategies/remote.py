"""Asynchronous training, on a worker's side: it computes gradients at parameters that a server hands it.

The state that this worker could go on with, should it have to, is that of the last time at which all members met.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from omnilearn_runtime.managed import Managed

from .learner import Learner


class RemoteLearner(Learner):
    """The model at a server's parameters, and those of the last meeting."""

    overlaps = False

    def __init__(self, managed: Managed) -> None:
        super().__init__(managed)
        self._met: list[Tensor] | None = None

    def depart(self) -> None:
        """Keep the parameters as they are now: those of a server come in their place."""
        if self._met is None:
            self._met = [each.detach().clone() for each in self._values()]

    def arrived(self) -> None:
        """Begin a gradient at parameters that a server has given: running statistics begin there, too."""
        self.buckets.clear()
        self._statistics.commit()

    def go_back(self) -> None:
        """Have the parameters of the last meeting again."""
        if self._met is not None:
            self._set(self._met)
            self._met = None
            self._statistics.commit()
        self._drop_sums()

    def to_tree(self) -> dict[str, Any]:
        """Return the state as of the last meeting."""
        if self._met is None:
            return super().to_tree()
        now = [each.detach().clone() for each in self._values()]
        self._set(self._met)
        tree = self.managed.to_tree()
        models = {name: {key: each.clone() for key, each in states.items()} for name, states in tree["models"].items()}
        self._set(now)
        return tree | {"models": models}

    def load(self, tree: dict[str, Any]) -> None:
        """Become that state."""
        self._met = None
        super().load(tree)

    def _values(self) -> list[Tensor]:
        managed = self.managed
        parameters = [parameter for _, parameter in managed.named_parameters()]
        return [*parameters, *managed.running_statistics(), *managed.batch_counters()]

    def _set(self, values: list[Tensor]) -> None:
        with torch.no_grad():
            for each, value in zip(self._values(), values, strict=True):
                each.copy_(value)
