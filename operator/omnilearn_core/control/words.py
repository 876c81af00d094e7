"""The sentences in which laws say why: short, with numbers, the same words everywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def listing(names: Sequence[str], most: int = 3) -> str:
    """Return the first few names, and how many more there are."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def moves(before: Mapping[str, int], after: Mapping[str, int]) -> str:
    """Return the largest changes of shares, as ``cpu-1 24→17``."""
    moved = [worker for worker in after if after[worker] != before.get(worker, 0)]
    moved.sort(key=lambda worker: -abs(after[worker] - before.get(worker, 0)))
    return listing([f"{worker} {before.get(worker, 0)}→{after[worker]}" for worker in moved])


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
    """Tell a step-time ratio in words: 1.38 is ``38 % slower``."""
    return f"{percent(ratio - 1.0)} slower" if ratio >= 1.0 else f"{percent(1.0 / ratio - 1.0)} faster"
