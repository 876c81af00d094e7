"""The books of a pass: which samples are leased, folded, committed; and how far the job is. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from omnilearn_runtime.ledger import Intervals, Ledger, checksum
from omnilearn_runtime.progress import Progress
from omnilearn_runtime.work import audited

from .policies import Slot


@dataclass(frozen=True, slots=True)
class Lease:
    """Samples that a worker computes."""

    number: int
    samples: Intervals


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a pass stands: committed positions, and how many samples with which audit sum were in the updates."""

    committed: Intervals = field(default_factory=Intervals.of)
    count: int = 0
    sum: int = 0

    def to_tree(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"committed": self.committed.to_list(), "count": self.count, "sum": self.sum}

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> Standing:
        """Return what `to_tree` gave."""
        return cls(Intervals.from_list(tree["committed"]), int(tree["count"]), int(tree["sum"]))


class Account:
    """Who has leased what, by worker and then by slot. What is not committed returns with a restart."""

    def __init__(self, progress: Progress, standing: Standing, batch: int) -> None:
        self.progress, self._batch = progress, batch
        self._ledger = Ledger(progress.size, standing.committed)
        self._count, self._sum = standing.count, standing.sum
        self._leases: dict[str, Lease] = {}
        self._folded: dict[Slot, list[Lease]] = {}
        self._numbers = 0

    @property
    def standing(self) -> Standing:
        """What to go on from."""
        return Standing(self._ledger.committed, self._count, self._sum)

    @property
    def remains(self) -> bool:
        """True if there are samples that nobody has."""
        return bool(self._ledger.remaining)

    @property
    def drained(self) -> bool:
        """True if nobody computes anything."""
        return not self._leases

    @property
    def complete(self) -> bool:
        """True if all samples are committed."""
        return self._ledger.committed.size == self._ledger.size

    def lease(self, worker: str, count: int) -> Lease | None:
        """Give a worker samples; None if there are none, or if it has some."""
        if count < 1 or worker in self._leases or not self.remains:
            return None
        self._numbers += 1
        self._ledger = self._ledger.lease(str(self._numbers), count)
        lease = self._leases[worker] = Lease(self._numbers, self._ledger.leased[str(self._numbers)])
        return lease

    def of(self, worker: str) -> Lease | None:
        """Return what a worker has."""
        return self._leases.get(worker)

    def fold(self, worker: str, slot: Slot) -> None:
        """Note that a worker's gradient is in a slot."""
        self._folded.setdefault(slot, []).append(self._leases.pop(worker))

    def give_back(self, worker: str) -> None:
        """Return what a worker has, if anything, to those who come next."""
        lease = self._leases.pop(worker, None)
        if lease is not None:
            self._ledger = self._ledger.give_back(str(lease.number))

    def rename(self, old: Slot, new: Slot) -> None:
        """Follow a slot."""
        self._folded[new] = self._folded.pop(old, [])

    def empty(self, slot: Slot) -> None:
        """Forget a slot; what was in it and in no update returns."""
        for lease in self._folded.pop(slot, []):
            self._ledger = self._ledger.give_back(str(lease.number))

    def apply(self, slots: Sequence[Slot]) -> int:
        """Commit what is in the slots and was in no update before; return how many schedules are due."""
        leases = [lease for slot in slots for lease in self._folded.get(slot, [])]
        for slot in slots:
            self._folded[slot] = []
        return self._commit(leases, skipped=False)

    def skip(self, worker: str) -> int:
        """Commit what a worker has, without an update: its gradient is not finite."""
        return self._commit([self._leases.pop(worker)], skipped=True)

    def _commit(self, leases: Sequence[Lease], *, skipped: bool) -> int:
        before = self._ledger.committed.size
        for lease in leases:
            self._ledger = self._ledger.commit(lease.samples)
            self._count += lease.samples.size
            self._sum += checksum(lease.samples)
        after, size = self._ledger.committed.size, self._ledger.size
        at = (self.progress.epoch, after, size)
        self.progress = self.progress.after_step(at, after - before, skipped=skipped)
        return self._batches(after) - self._batches(before)

    def _batches(self, samples: int) -> int:
        """Return how many global batches so many samples are; the last one of a pass may be short."""
        return -(-samples // self._batch) if samples == self._ledger.size else samples // self._batch

    def close(self) -> Progress:
        """Return the progress at the end of the pass, audited: one more round, so that everybody else is behind."""
        progress = self.progress
        if self.complete:
            progress = audited(progress, Intervals.of((0, self._ledger.size)), (self._count, self._sum))
        self.progress = replace(progress, round=progress.round + 1)
        return self.progress
