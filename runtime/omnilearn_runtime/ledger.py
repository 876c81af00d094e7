"""Which samples of an epoch are computed by whom and committed: intervals of positions, shares, audit sums.

A position is a place in the epoch's order; `epoch_order` says which sample stands there. The session and the strategies
call this. Everything is a value: nothing here is changed in place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise

import torch

Interval = tuple[int, int]

# Positions are summed in pieces of this size, so that an audit of a large step needs little memory.
_PIECE = 2**20


class DoubledError(ValueError):
    """A sample would be committed or leased twice."""


class UnleasedError(ValueError):
    """A sample would be committed or given back that nobody has leased."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """A set of positions as half-open intervals: sorted, disjoint, and merged where they touch."""

    pairs: tuple[Interval, ...] = ()

    def __post_init__(self) -> None:
        edges = [edge for pair in self.pairs for edge in pair]
        if any(left >= right for left, right in pairwise(edges)):
            raise ValueError(
                f"the intervals {self.pairs} are not sorted, disjoint and merged: make them with Intervals.of"
            )

    @classmethod
    def of(cls, *pairs: Interval) -> Intervals:
        """Return the positions of all pairs, which may overlap, touch or be empty."""
        merged: list[Interval] = []
        for start, end in sorted(pairs):
            if start > end:
                raise ValueError(f"the interval from {start} to {end} ends before it starts")
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            elif start < end:
                merged.append((start, end))
        return cls(tuple(merged))

    @classmethod
    def from_list(cls, value: object) -> Intervals:
        """Read what `to_list` wrote; anything else is a ValueError with a sentence."""
        match value:
            case list():
                return cls(tuple(_pair(item) for item in value))
            case _:
                raise ValueError("intervals must be a list of pairs of whole numbers")

    def to_list(self) -> list[list[int]]:
        """Return the intervals as JSON can carry them."""
        return [list(pair) for pair in self.pairs]

    def __iter__(self) -> Iterator[Interval]:
        return iter(self.pairs)

    def __bool__(self) -> bool:
        return bool(self.pairs)

    @property
    def size(self) -> int:
        """How many positions there are."""
        return sum(end - start for start, end in self.pairs)

    def union(self, *others: Intervals) -> Intervals:
        """Return the positions that are here or in any of the others."""
        return Intervals.of(*self.pairs, *chain.from_iterable(others))

    def overlap(self, other: Intervals) -> Intervals:
        """Return the positions that are in both."""
        return Intervals(_common(self.pairs, other.pairs))

    def minus(self, other: Intervals) -> Intervals:
        """Return the positions that are here and not in the other."""
        if not self or not other:
            return self
        lowest = min(self.pairs[0][0], other.pairs[0][0])
        highest = max(self.pairs[-1][1], other.pairs[-1][1])
        edges = [lowest, *chain.from_iterable(other), highest]
        return Intervals(_common(self.pairs, list(zip(edges[::2], edges[1::2], strict=True))))

    def take(self, count: int) -> tuple[Intervals, Intervals]:
        """Return the first ``count`` positions and the rest; there must be so many."""
        first, rest = self.split([count, self.size - count])
        return first, rest

    def split(self, sizes: Sequence[int]) -> list[Intervals]:
        """Cut into consecutive parts of the given sizes, which must sum to the size."""
        if any(size < 0 for size in sizes) or sum(sizes) != self.size:
            raise ValueError(f"{self.size} positions cannot be split into parts of {list(sizes)}")
        parts, rest = [], list(reversed(self.pairs))
        for size in sizes:
            part: list[Interval] = []
            while size > 0:
                start, end = rest.pop()
                cut = min(end, start + size)
                part.append((start, cut))
                size -= cut - start  # noqa: PLW2901 - what is left of this part
                if cut < end:
                    rest.append((cut, end))
            parts.append(Intervals(tuple(part)))
        return parts


def _pair(item: object) -> Interval:
    match item:
        case [int() as start, int() as end] if type(start) is type(end) is int and start >= 0:
            return start, end
        case _:
            raise ValueError(f"{item!r} is no interval: it must be a pair of whole numbers, none below zero")


def _common(left: Sequence[Interval], right: Sequence[Interval]) -> tuple[Interval, ...]:
    """Return what two sorted lists of intervals have in common."""
    common, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        start, end = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if start < end:
            common.append((start, end))
        if left[i][1] <= right[j][1]:
            i += 1
        else:
            j += 1
    return tuple(common)


@dataclass(frozen=True, slots=True)
class Ledger:
    """Which samples of an epoch are committed, and which are out on lease; every other one remains."""

    size: int
    committed: Intervals = Intervals()
    leased: Mapping[str, Intervals] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_disjoint([self.committed, *self.leased.values()])
        if outside := self._taken().minus(Intervals.of((0, self.size))):
            raise ValueError(f"the positions {outside.to_list()} are not in an epoch of {self.size} samples")

    @classmethod
    def synchronous(cls, size: int, position: int) -> Ledger:
        """Return the ledger of an epoch whose first ``position`` samples are committed."""
        return cls(size, Intervals.of((0, position)))

    def _taken(self) -> Intervals:
        return self.committed.union(*self.leased.values())

    @property
    def remaining(self) -> Intervals:
        """What is neither committed nor leased."""
        return Intervals.of((0, self.size)).minus(self._taken())

    def lease(self, holder: str, count: int) -> Ledger:
        """Give the first ``count`` remaining samples to the holder, or all if fewer remain."""
        remaining = self.remaining
        part, _ = remaining.take(min(count, remaining.size))
        held = self.leased.get(holder, Intervals()).union(part)
        return Ledger(self.size, self.committed, _without_empty({**self.leased, holder: held}))

    def commit(self, intervals: Intervals) -> Ledger:
        """Commit leased samples, whoever holds them."""
        if doubled := intervals.overlap(self.committed):
            raise DoubledError(f"the positions {doubled.to_list()} would be committed twice")
        return Ledger(self.size, self.committed.union(intervals), self._leases_without(intervals))

    def give_back(self, holder: str) -> Ledger:
        """Return all that a holder has leased to what remains; nothing happens if that is nothing."""
        return Ledger(self.size, self.committed, {who: held for who, held in self.leased.items() if who != holder})

    def give_back_intervals(self, intervals: Intervals) -> Ledger:
        """Return leased samples to what remains, whoever holds them."""
        return Ledger(self.size, self.committed, self._leases_without(intervals))

    def _leases_without(self, intervals: Intervals) -> dict[str, Intervals]:
        if unleased := intervals.minus(Intervals().union(*self.leased.values())):
            raise UnleasedError(f"nobody has leased the positions {unleased.to_list()}")
        return _without_empty({holder: held.minus(intervals) for holder, held in self.leased.items()})


def _without_empty(leases: Mapping[str, Intervals]) -> dict[str, Intervals]:
    return {holder: held for holder, held in leases.items() if held}


def _check_disjoint(parts: Iterable[Intervals]) -> None:
    for (_, end), (start, _) in pairwise(sorted(chain.from_iterable(parts))):
        if start < end:
            raise DoubledError(f"the position {start} would be leased or committed twice")


def scaled(size: int, shares: Sequence[int]) -> list[int]:
    """Return the shares of a round of another size by largest remainders; among equal ones the first gets more.

    A share of zero stays zero, unless all are zero: then all get the same.
    """
    if size < 0 or any(share < 0 for share in shares) or (size > 0 and not shares):
        raise ValueError(f"a round of {size} samples cannot be shared as {list(shares)}")
    if not any(shares):
        shares = [1] * len(shares)
    total = max(1, sum(shares))
    floors = [size * share // total for share in shares]
    by_remainder = sorted(range(len(shares)), key=lambda rank: -(size * shares[rank] % total))
    for rank in by_remainder[: size - sum(floors)]:
        floors[rank] += 1
    return floors


def epoch_order(size: int, seed: int, epoch: int, shuffle: bool) -> torch.Tensor:
    """Return which sample stands at each position of an epoch: the same on every worker, and in every run."""
    if not shuffle:
        return torch.arange(size)
    digest = hashlib.blake2b(f"{seed}:{epoch}".encode(), digest_size=8).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest, "little"))
    return torch.randperm(size, generator=generator)


def checksum(positions: Intervals) -> int:
    """Return the exact sum of a 31-bit mix of each position: equal sums mean equal positions, as good as surely.

    The sum over disjoint parts is the sum of the whole. Up to 2²² positions stay below 2⁵³, exact in a float64.
    """
    pieces = ((at, min(at + _PIECE, end)) for start, end in positions for at in range(start, end, _PIECE))
    return sum(int(_mix(torch.arange(start, end)).sum()) for start, end in pieces)


def _mix(positions: torch.Tensor) -> torch.Tensor:
    """Return the low 31 bits of splitmix64; int64 multiplication wraps, and shifts are made logical by the masks."""
    mixed = positions + -0x61C8864680B583EB
    mixed = (mixed ^ ((mixed >> 30) & (2**34 - 1))) * -0x40A7B892E31B1A47
    mixed = (mixed ^ ((mixed >> 27) & (2**37 - 1))) * -0x6B2FB644ECCEEE15
    return (mixed ^ ((mixed >> 31) & (2**33 - 1))) & (2**31 - 1)
