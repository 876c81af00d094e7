"""Which cells are measured."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from .layouts import LEVELS


class Cell(NamedTuple):
    """One cell, averaged over seeds."""

    level: int
    workers: int
    fixed_share: float
    fixed_scales: bool
    noise: float
    seeds: int
    to_level: int = 0  # for a change of level


@dataclass(frozen=True, slots=True)
class Grid:
    """All cells of a comparison."""

    steady: tuple[Cell, ...]
    changes: tuple[Cell, ...]
    schedules: tuple[Cell, ...]


FIXED_SHARES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.85)
NOISES = (0.0, 0.01, 0.03, 0.08)
STEPS_OF_LEVEL = ((1, 2), (2, 4), (4, 8), (8, 4), (4, 2), (2, 1), (1, 8), (8, 1))


def full() -> Grid:
    """Return the whole grid."""
    return Grid(
        steady=_steady((4, 8, 16, 32), FIXED_SHARES, NOISES, seeds=20),
        changes=_changes((4, 32), (0.0, 0.2, 0.5, 0.7, 0.85), (0.0, 0.03, 0.08), seeds=20),
        schedules=_schedules((4, 32), (0.0, 0.2, 0.5, 0.85), (0.0, 0.02, 0.03, 0.08), seeds=20),
    )


def quick() -> Grid:
    """Return a part that takes seconds."""
    return Grid(
        steady=_steady((4, 16), (0.0, 0.5, 0.85), (0.03, 0.08), seeds=6),
        changes=_changes((4,), (0.0, 0.2, 0.5), (0.0, 0.03), seeds=8),
        schedules=_schedules((4,), (0.2,), (0.02,), seeds=8),
    )


def _seeds(seeds: int, workers: int) -> int:
    """Return fewer seeds where more workers average by themselves."""
    return max(3, seeds * 4 // workers)


def _steady(
    workers: tuple[int, ...], shares: tuple[float, ...], noises: tuple[float, ...], seeds: int
) -> tuple[Cell, ...]:
    return tuple(
        Cell(level, count, share, scales, noise, 1 if noise == 0.0 else _seeds(seeds, count))
        for level, count, share, scales, noise in product(LEVELS, workers, shares, (False, True), noises)
        if not (scales and share == 0.0)
    )


def _changes(
    workers: tuple[int, ...], shares: tuple[float, ...], noises: tuple[float, ...], seeds: int
) -> tuple[Cell, ...]:
    return tuple(
        Cell(before, count, share, scales, noise, 1 if noise == 0.0 else _seeds(seeds, count), after)
        for (before, after), count, share, scales, noise in product(
            STEPS_OF_LEVEL, workers, shares, (False, True), noises
        )
        if not (scales and share == 0.0)
    )


def _schedules(
    workers: tuple[int, ...], shares: tuple[float, ...], noises: tuple[float, ...], seeds: int
) -> tuple[Cell, ...]:
    return tuple(
        Cell(1, count, share, scales, noise, 1 if noise == 0.0 else _seeds(seeds, count))
        for count, share, scales, noise in product(workers, shares, (False, True), noises)
        if not (scales and share == 0.0)
    )
