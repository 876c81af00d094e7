"""One attempt to reduce a round in one generation: buckets in index order, statistics, the control element last."""

from __future__ import annotations

import torch
from torch import Tensor

from .buckets import Buckets
from .element import Part, Whole, from_vector, to_vector
from .group import Group, Operation
from .membership import Membership
from .nccl import CudaOperation
from .waiting import Ending


class Reduction:
    """Begun while backward runs, ended by `finish`. If it is abandoned, its buffers are never used again."""

    def __init__(self, group: Group, membership: Membership, buckets: Buckets | None) -> None:
        self.group, self._membership = group, membership
        self._buckets = [] if buckets is None else buckets.buckets
        self._copies: list[Tensor] = []
        self._operations: list[Operation | CudaOperation] = []
        self._said: tuple[Part, Tensor] | None = None
        self._stale = False

    @property
    def begun(self) -> bool:
        """True once a bucket is on its way."""
        return bool(self._copies)

    def fire(self, number: int) -> None:
        """Reduce a bucket, whose sums are final for this attempt; must be called in index order."""
        if self._stale or number != len(self._copies):
            return
        copy = self._buckets[number].copy(on_device=self.group.on_device)
        self._copies.append(copy)
        self._begin(copy)

    def add(self, *tensors: Tensor) -> None:
        """Replace some more tensors by their sums, after the buckets."""
        self.fire_rest()
        for tensor in tensors:
            self._begin(tensor)

    def fire_rest(self) -> None:
        """Reduce the buckets that backward has not reached."""
        for number in range(len(self._copies), len(self._buckets)):
            self.fire(number)

    def close(self, part: Part) -> None:
        """Begin the last operation, the control element; nothing is waited for."""
        self.fire_rest()
        vector = to_vector(part, self.group.rank, self.group.names)
        self._said = (part, vector)
        self._begin(vector)

    def finish(self) -> tuple[Ending, Whole | None]:
        """Wait for everything."""
        ending = Ending.SUPERSEDED if self._stale else self._membership.wait_for(self._operations, self.group)
        if ending is not Ending.COMPLETE or self._said is None:
            return ending, None
        part, vector = self._said
        return ending, from_vector(vector, part, self.group.size)

    def give(self, whole: Whole) -> bool:
        """Hand the mean gradients to the parameters; False if they are not finite, on all members alike."""
        # The sum of finite numbers is finite, short of an overflow that is as bad.
        finite = all(bool(torch.isfinite(copy.sum())) for copy in self._copies)
        for bucket, copy in zip(self._buckets, self._copies, strict=True):
            bucket.give(copy, whole.weight, [whole.touched[index] for index in bucket.indices])
        return finite

    def recycle(self) -> None:
        """Give the buffers back; only after all operations have completed."""
        for bucket, copy in zip(self._buckets, self._copies, strict=True):
            bucket.recycle(copy)

    def _begin(self, tensor: Tensor) -> None:
        self._stale = self._stale or self._membership.is_superseded(self.group)
        if self.group.size > 1 and not self._stale:
            self._operations.append(self.group.all_reduce(tensor))
