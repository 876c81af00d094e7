"""The batches of one pass over the data, as a server gives them out. Used by `session`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from omnilearn_runtime.feeding import Feeder
from omnilearn_runtime.ledger import Intervals
from omnilearn_runtime.loading import Loader
from omnilearn_runtime.work import Open

from .engine import AsynchronousRounds


class AsynchronousFeeder(Feeder):
    """Yields micro-batches of whatever the server has for this worker."""

    def __init__(self, rounds: AsynchronousRounds, loader: Loader, size: int, global_batch: int) -> None:
        super().__init__(rounds, loader, size, global_batch)
        self._engine = rounds

    def steps(self, epoch: int, order: Tensor, end: int) -> Iterator[Any]:
        """Yield micro-batches until the pass is complete, which it is at ``end``."""
        self._engine.be_member()
        self._offset(epoch)  # it would say so if the job had gone back
        self._engine.pass_through(epoch, end)
        while (opened := self._engine.next_work()) is not None:
            yield from self._round(opened, order)

    def _look_ahead(self, opened: Open, parts: Sequence[Intervals], order: Tensor) -> None:
        """Have the next micro-batch loaded; nobody knows what the server will give after this one's last."""
        if len(parts) > 1:
            super()._look_ahead(opened, parts, order)
