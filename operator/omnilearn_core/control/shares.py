"""Turn speeds into whole shares that sum to the global batch and respect every bound.

`apportion` splits in proportion to weights; `balance` makes everybody finish at the same time. Both pour
samples continuously first (`_pour`), then round; the two roundings differ on purpose (docs/decisions.md).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

_DIGITS = 9
_NOTHING = 1e-12  # a weight of nothing, relative to the heaviest: it still needs a place in the pouring order
_TINY = 10.0**-_DIGITS  # what floating point may lose of a whole sample


class ImpossibleSplitError(ValueError):
    """No split keeps every bound; the sentence says which bound to change."""


class Slot(NamedTuple):
    """One member's side of a split: ``seconds(share) = fixed + per_sample * share``, and its bounds."""

    fixed: float
    per_sample: float
    minimum: int
    maximum: int


def ensure_possible(total: int, slots: Sequence[Slot]) -> None:
    """Raise ImpossibleSplitError unless ``total`` samples fit between the slots' bounds."""
    if not slots:
        raise ImpossibleSplitError("there are no members to share the global batch: add a worker")
    least = sum(slot.minimum for slot in slots)
    most = sum(slot.maximum for slot in slots)
    if total < least:
        raise ImpossibleSplitError(
            f"{len(slots)} members need at least {least} samples a step, but the global batch is {total}:"
            " lower minPerWorker or use fewer workers"
        )
    if total > most:
        raise ImpossibleSplitError(
            f"{len(slots)} members can hold at most {most} samples a step, but the global batch is {total}:"
            " raise maxPerWorker or use more workers"
        )
    crossed = next((slot for slot in slots if slot.minimum > slot.maximum), None)
    if crossed is not None:
        raise ImpossibleSplitError(
            f"a member must get at least {crossed.minimum} samples a step but can hold only {crossed.maximum}:"
            " lower minPerWorker or raise maxPerWorker"
        )


def apportion(total: int, weights: Sequence[float], bounds: Sequence[tuple[int, int]]) -> list[int]:
    """Split ``total`` in proportion to ``weights`` within ``bounds``, by largest remainder."""
    heaviest = max(weights, default=0.0) or 1.0
    slots = [
        Slot(0.0, 1.0 / max(weight / heaviest, _NOTHING), low, high)
        for weight, (low, high) in zip(weights, bounds, strict=True)
    ]
    exact = _pour(total, slots)
    shares = _floors(total, exact, slots)
    # Alike workers differ by what floating point makes of their speeds: that must not decide who gets the odd sample.
    order = sorted(range(len(slots)), key=lambda k: (round(shares[k] - exact[k], _DIGITS), k))
    return _settle(total, shares, slots, order)


def balance(total: int, slots: Sequence[Slot]) -> list[int]:
    """Split ``total`` so that the last to finish finishes as early as whole samples allow."""
    shares = _floors(total, _pour(total, slots), slots)
    # Whoever would finish its next sample first gets it: this is the exact optimum over whole shares.
    queue = [
        (_next_finish(slot, shares[k]), slot.per_sample, k) for k, slot in enumerate(slots) if shares[k] < slot.maximum
    ]
    heapq.heapify(queue)
    for _ in range(total - sum(shares)):
        _, _, k = queue[0]
        shares[k] += 1
        if shares[k] < slots[k].maximum:
            heapq.heapreplace(queue, (_next_finish(slots[k], shares[k]), slots[k].per_sample, k))
        else:
            heapq.heappop(queue)
    return shares


def makespan(shares: Sequence[int], slots: Sequence[Slot]) -> float:
    """Return when the last member is done; a share of zero costs nothing."""
    last = 0.0
    for share, slot in zip(shares, slots, strict=True):
        done = slot.fixed + slot.per_sample * share if share else 0.0
        last = max(last, done)
    return last


def _next_finish(slot: Slot, share: int) -> float:
    return slot.fixed + slot.per_sample * (share + 1)


def _floors(total: int, exact: Sequence[float], slots: Sequence[Slot]) -> list[int]:
    """Round down, never to more than ``total`` together; the exact shares already keep the bounds."""
    shares = [int(amount + _TINY) for amount in exact]
    # Floating point alone can put the sum above the total: the last to finish gives back.
    while (surplus := sum(shares) - total) > 0:
        spare = (k for k, slot in enumerate(slots) if shares[k] > slot.minimum)
        last = max(spare, key=lambda k: slots[k].fixed + slots[k].per_sample * shares[k])
        shares[last] -= min(surplus, shares[last] - slots[last].minimum)
    return shares


def _pour(total: int, slots: Sequence[Slot]) -> list[float]:
    """Return the real-valued shares at the one time at which they sum to ``total``.

    Sweeps the times at which a slot starts to fill and is full; between two of them the sum is a line.
    """
    ensure_possible(total, slots)
    turns: list[tuple[float, float]] = []
    poured = 0.0
    for fixed, per_sample, minimum, maximum in slots:
        rate = 1.0 / per_sample
        turns.append((fixed + per_sample * minimum, rate))
        turns.append((fixed + per_sample * maximum, -rate))
        poured += minimum
    turns.sort()
    time, rate = turns[0][0], 0.0
    for at, change in turns:
        more = rate * (at - time)
        if rate > 0.0 and poured + more >= total:
            break
        poured += more
        time, rate = at, rate + change
    if rate > 0.0:
        time += (total - poured) / rate
    exact: list[float] = []
    for fixed, per_sample, minimum, maximum in slots:
        share = (time - fixed) / per_sample
        exact.append(minimum if share < minimum else maximum if share > maximum else share)
    return exact


def _settle(total: int, shares: list[int], slots: Sequence[Slot], order: Sequence[int]) -> list[int]:
    """Hand out what rounding lost, one sample at a time in ``order``, so that the sum is exact."""
    left = total - sum(shares)
    while left:
        for k in order:
            if left and shares[k] < slots[k].maximum:
                shares[k] += 1
                left -= 1
    return shares
