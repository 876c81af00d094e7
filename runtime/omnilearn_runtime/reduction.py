"""One attempt to reduce a round in one generation: buckets in index order, statistics, and the control element last.

Where it can, the control element takes the last bucket along.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .buckets import Bucket, Buckets
from .element import MOST_RIDERS, Part, Whole, from_vector, thick, thin, to_vector
from .group import Group, Operation
from .membership import Membership
from .nccl import CudaOperation
from .waiting import Ending


class Reduction:
    """Begun while backward runs, ended by `finish`. If it is abandoned, its buffers are never used again.

    The control element rides in the last bucket, which is complete only at the end of backward anyway: where peers are
    far or cores are few, an operation costs more than its bytes.
    """

    def __init__(self, group: Group, membership: Membership, buckets: Buckets | None) -> None:
        self.group, self._membership = group, membership
        self._buckets = [] if buckets is None else buckets.buckets
        self._carrier = carrier_of(self._buckets, group)
        self._buffers: list[Tensor] = []
        self._operations: list[Operation | CudaOperation] = []
        self._said: tuple[Part, Tensor] | None = None
        self._stale = False

    @property
    def begun(self) -> bool:
        """True once a bucket is on its way."""
        return bool(self._buffers)

    def fire(self, number: int) -> None:
        """Reduce a bucket, whose sums are final for this attempt; must be called in index order."""
        bucket = self._buckets[number]
        if self._stale or number != len(self._buffers) or bucket is self._carrier:
            return
        self._send(bucket.copy(on_device=self.group.on_device))

    def add(self, *tensors: Tensor) -> None:
        """Replace some more tensors by their sums, after all buckets but the one with the control element."""
        self.fire_rest()
        for tensor in tensors:
            self._begin(tensor)

    def fire_rest(self) -> None:
        """Reduce the buckets that backward has not reached."""
        for number in range(len(self._buffers), len(self._buckets)):
            self.fire(number)

    def close(self, part: Part) -> None:
        """Begin the last operation, with the control element; nothing is waited for."""
        self.fire_rest()
        vector = to_vector(part, self.group.rank, self.group.names)
        if self._carrier is None:
            self._said = (part, vector)
            self._begin(vector)
            return
        is_thin = self._carrier.sums.dtype is torch.float32
        buffer = self._carrier.copy(thin(vector, len(part.touched)) if is_thin else vector)
        self._said = (part, buffer[self._carrier.size :])
        self._send(buffer)

    def finish(self) -> tuple[Ending, Whole | None]:
        """Wait for everything."""
        ending = Ending.SUPERSEDED if self._stale else self._membership.wait_for(self._operations, self.group)
        if ending is not Ending.COMPLETE or self._said is None:
            return ending, None
        part, vector = self._said
        whole = thick(vector, len(part.touched)) if vector.dtype is torch.float32 else vector
        return ending, from_vector(whole, part, self.group.size)

    def give(self, whole: Whole) -> bool:
        """Hand the mean gradients to the parameters; False if they are not finite, on all members alike."""
        sums = [buffer[: bucket.size] for bucket, buffer in zip(self._buckets, self._buffers, strict=True)]
        # The sum of finite numbers is finite, short of an overflow that is as bad.
        finite = all(bool(torch.isfinite(each.sum())) for each in sums)
        for bucket, each in zip(self._buckets, sums, strict=True):
            bucket.give(each, whole.weight, [whole.touched[index] for index in bucket.indices])
        return finite

    def recycle(self) -> None:
        """Give the buffers back; only after all operations have completed."""
        for bucket, buffer in zip(self._buckets, self._buffers, strict=True):
            bucket.recycle(buffer)

    def _send(self, buffer: Tensor) -> None:
        self._buffers.append(buffer)
        self._begin(buffer)

    def _begin(self, tensor: Tensor) -> None:
        self._stale = self._stale or self._membership.is_superseded(self.group)
        if self.group.size > 1 and not self._stale:
            self._operations.append(self.group.all_reduce(tensor))


def carrier_of(buckets: list[Bucket], group: Group) -> Bucket | None:
    """Return the bucket in which the control element rides, if it can: the last one; the same on all members."""
    suits = bool(buckets) and buckets[-1].sums.dtype in (torch.float32, torch.float64)
    return buckets[-1] if suits and not group.on_device and group.size <= MOST_RIDERS else None
