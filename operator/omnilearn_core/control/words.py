"""The sentences in which laws say why: short, with numbers, the same words everywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

# A sentence becomes an event and a field of the status: with two listings in it, it stays below 200 characters.
_MOST_NAMES = 3
_MOST_OF_A_NAME = 24
_MOST_OF_A_LISTING = 56


def short(worker: str) -> str:
    """Return a worker's name, or its end if it is long: that is where workers differ."""
    return worker if len(worker) <= _MOST_OF_A_NAME else f"…{worker[1 - _MOST_OF_A_NAME :]}"


def listing(workers: Sequence[str]) -> str:
    """Return the first few names, and how many more there are."""
    return _first_few([short(worker) for worker in workers[:_MOST_NAMES]], len(workers))


def moves(before: Mapping[str, int], after: Mapping[str, int]) -> str:
    """Return the largest changes of shares, as ``cpu-1 24→17``."""
    moved = [worker for worker in after if after[worker] != before.get(worker, 0)]
    moved.sort(key=lambda worker: -abs(after[worker] - before.get(worker, 0)))
    largest = [f"{short(worker)} {before.get(worker, 0)}→{after[worker]}" for worker in moved[:_MOST_NAMES]]
    return _first_few(largest, len(moved))


def _first_few(items: Sequence[str], count: int) -> str:
    """Return as many items as there is room for, and how many of ``count`` are left out."""
    shown = list(items)
    while len(shown) > 1 and len(", ".join(shown)) > _MOST_OF_A_LISTING:
        shown.pop()
    left = f" and {count - len(shown)} more" if count > len(shown) else ""
    return ", ".join(shown) + left


def percent(ratio: float) -> str:
    """Return a ratio as a percentage, with a decimal only where it tells something."""
    value = 100.0 * ratio
    return f"{value:.0f} %" if abs(value) >= 10 else f"{value:.1f} %"


def duration(seconds: float) -> str:
    """Return a step time in the unit a person would use."""
    if seconds >= 10:
        return f"{seconds:.1f} s"
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def slower_or_faster(ratio: float) -> str:
    """Tell a step-time ratio in words: 1.38 is ``38 % slower``, 2.5 is ``2.5 × slower``."""
    factor, word = (ratio, "slower") if ratio >= 1.0 else (1.0 / ratio, "faster")
    return f"{factor:.1f} × {word}" if factor >= 2.0 else f"{percent(factor - 1.0)} {word}"
