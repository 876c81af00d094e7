"""Who computes what of a round: the plan in force, the one after it, what is held already, and the tail. Pure.

Everything in here is the same on all members, or the samples of a round would be lost or doubled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .ledger import Intervals, scaled
from .tail import Request


class Place(NamedTuple):
    """A worker's place in the rounds to come, as far as it is known."""

    batch: int
    shares: tuple[int, ...]
    rank: int


# A piece of the tail is at least this part of a share: every one has its fixed costs.
_MOST_PIECES = 50
_FEWEST = 2


class Division:
    """The plans of a generation. A plan that is announced in one round is in force from the second after it."""

    def __init__(self) -> None:
        self._now: tuple[int, tuple[int, ...]] = (0, ())
        self._next: tuple[int, tuple[int, ...]] = self._now
        self._first, self._held = -1, Intervals.of()
        self._abandoned = 0

    @property
    def version(self) -> int:
        """Version of the plan in force."""
        return self._now[0]

    @property
    def shares(self) -> tuple[int, ...]:
        """The shares in force, by rank."""
        return self._now[1]

    @property
    def host(self) -> int:
        """The rank that hands out the tail: the one with the largest share, which has the most time."""
        return max(range(len(self.shares)), key=lambda rank: self.shares[rank])

    def enter(self, version: int, shares: Sequence[int], first: int, held: Intervals) -> None:
        """Begin a generation, of whose ``first`` round some samples are held already."""
        self._now = self._next = (version, tuple(shares))
        self._first, self._held, self._abandoned = first, held, 0

    def commit(self, version: int, shares: Sequence[int]) -> None:
        """Go on to the next round, with what rank 0 has announced in this one; version 0 is no plan."""
        self._now = self._next
        self._next = (version, tuple(shares)) if version else self._next

    def abandon(self) -> None:
        """Begin the round once more, with other samples: the script has left its loop in the middle of a step."""
        self._first, self._held = -1, Intervals.of()
        self._abandoned += 1

    def part(self, interval: Intervals, round_: int, batch: int | None, rank: int) -> tuple[Intervals, Intervals]:
        """Return a rank's part of what nobody holds of a round, and the tail.

        The first round of a generation has no tail, because some members may have begun it in another one.
        """
        if round_ == self._first:
            gaps = interval.minus(self._held)
            return _own(gaps, self.shares, rank), Intervals.of()
        return _with_tail(interval, self.shares, batch, rank)

    def upcoming(self, interval: Intervals, batch: int, rank: int) -> Intervals:
        """Return a rank's part of the round after the present one, as it will be if nothing happens."""
        return _with_tail(interval, self._next[1], batch, rank)[0]

    def request(self, tail: Intervals, round_: int, rank: int) -> Request:
        """Return what to ask for."""
        ((begin, end),) = tail
        share = self.shares[rank]
        least = max(_FEWEST, share // _MOST_PIECES)
        return Request(round_, self._abandoned, begin, end, share, sum(self.shares), least)


def _own(samples: Intervals, shares: Sequence[int], rank: int) -> Intervals:
    return samples.split(scaled(samples.size, shares))[rank]


def _with_tail(interval: Intervals, shares: Sequence[int], batch: int | None, rank: int) -> tuple[Intervals, Intervals]:
    """Split a whole global batch by the shares: what they leave is the tail. Other rounds have none."""
    planned = sum(shares) if interval.size == batch else interval.size
    own, tail = interval.take(planned)
    return _own(own, shares, rank), tail
