"""One evaluation over all members: sums that are exact, whoever computes which part, and whoever is lost meanwhile."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from .membership import Membership
from .reduction import Reduction
from .waiting import Ending

_LAYOUT_BYTES = 16384


class Evaluation:
    """The sums of one worker's part, by name; added up over the members when the round is reduced."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._total: Tensor | None = None
        self._layout: dict[str, tuple[int, ...]] = {}

    def add(self, sums: Mapping[str, Any]) -> None:
        """Add what the user's function gave for a batch."""
        if not isinstance(sums, Mapping):
            raise TypeError(
                f"the function of session.evaluate gave a {type(sums).__name__}: give a dictionary of sums over the "
                "batch, such as {'correct': (scores.argmax(1) == y).sum(), 'count': len(y)}"
            )
        for name, value in sums.items():
            tensor = torch.as_tensor(value).detach().to("cpu", torch.float64)
            self._sums[name] = self._sums[name] + tensor if name in self._sums else tensor

    def clear(self) -> None:
        """Forget the sums."""
        self._sums = {}

    def contribute(self, reduction: Reduction, membership: Membership) -> bool:
        """Add this worker's sums to the reduction; False if the generation has to be left."""
        layout = self._agree(reduction, membership)
        if layout is None:
            return False
        self._layout = layout
        zeros = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in layout.items()}
        parts = [(self._sums.get(name, zero)).reshape(-1) for name, zero in zeros.items()]
        self._total = torch.cat(parts) if parts else torch.zeros(0, dtype=torch.float64)
        if self._total.numel():
            reduction.add(self._total)
        return True

    def _agree(self, reduction: Reduction, membership: Membership) -> dict[str, tuple[int, ...]] | None:
        """Return names and shapes of all sums: a worker without a part does not know them."""
        mine = {name: list(tensor.shape) for name, tensor in self._sums.items()}
        if reduction.group.size == 1:
            return {name: tuple(shape) for name, shape in mine.items()}
        text = json.dumps(mine).encode()
        if len(text) > _LAYOUT_BYTES:
            raise ValueError("session.evaluate was given too many sums: put them into a few tensors")
        record = torch.frombuffer(bytearray(text.ljust(_LAYOUT_BYTES)), dtype=torch.uint8)
        operation, gathered = reduction.group.all_gather(record)
        if membership.wait_for([operation], reduction.group) is not Ending.COMPLETE:
            return None
        layout: dict[str, tuple[int, ...]] = {}
        for each in gathered:
            for name, shape in json.loads(bytes(each.numpy().data)).items():
                if layout.setdefault(name, tuple(shape)) != tuple(shape):
                    raise ValueError(f"the sum '{name}' of session.evaluate has different shapes on different workers")
        return layout

    def own(self) -> dict[str, Any]:
        """Return the sums of this worker alone."""
        return {name: float(tensor) if tensor.dim() == 0 else tensor for name, tensor in self._sums.items()}

    def result(self) -> dict[str, Any]:
        """Return the sums over all members: numbers, and tensors where the function gave tensors."""
        if self._total is None:
            return {}
        parts = torch.split(self._total, [math.prod(shape) for shape in self._layout.values()])
        return {
            name: part.reshape(shape) if shape else float(part)
            for (name, shape), part in zip(self._layout.items(), parts, strict=True)
        }
