"""From runs to figures: when a curve comes to its target, what it was at a moment, and means over seeds. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from .papers_plan import Outcome

Curve = Sequence[tuple[float, float]]

_SMOOTHED = 3
SAMPLES = 4000
"""So many samples everybody has computed by the end of a run, at HL8 with equal shares, too."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What counts as reached."""

    target: float
    higher_is_better: bool


def smooth(curve: Curve) -> list[tuple[float, float]]:
    """Return the curve with every value the mean of itself and its neighbours."""
    values = [value for _, value in curve]
    half = _SMOOTHED // 2
    return [(moment, fmean(values[max(0, place - half) : place + half + 1])) for place, (moment, _) in enumerate(curve)]


def time_to(curve: Curve, goal: Goal) -> float:
    """Return when the smoothed curve comes to the target, between two points in proportion; infinity if it does not."""
    sign = 1.0 if goal.higher_is_better else -1.0
    last: tuple[float, float] | None = None
    for moment, value in smooth(curve):
        lacking = sign * (goal.target - value)
        if lacking <= 0:
            if last is None:
                return moment
            before, lacked = last
            return before + (moment - before) * lacked / (lacked - lacking)
        last = (moment, lacking)
    return math.inf


def at(curve: Curve, moment: float) -> float:
    """Return the smoothed value at a moment, between two points in proportion."""
    last: tuple[float, float] | None = None
    for time, value in smooth(curve):
        if time >= moment:
            if last is None:
                return value
            return last[1] + (value - last[1]) * (moment - last[0]) / (time - last[0])
        last = (time, value)
    return math.nan if last is None else last[1]


def _samples_at(outcome: Outcome) -> float:
    """Return when the run had computed SAMPLES."""
    return time_to(outcome.progress, Goal(SAMPLES, higher_is_better=True))


_LATELY_SECONDS = 4.0


def _speed(outcome: Outcome) -> float:
    """Return the samples per second of the end of a run: of its second half, or of the last seconds of a long one."""
    since = outcome.seconds - min(_LATELY_SECONDS, outcome.seconds / 2)
    before = [samples for moment, samples in outcome.progress if moment <= since]
    return (outcome.samples - (before[-1] if before else 0.0)) / (outcome.seconds - since)


FIGURES: dict[str, Callable[[Outcome, Goal], float]] = {
    "ms per step": lambda run, _: 1e3 * run.step_seconds,
    "seconds for samples": lambda run, _: _samples_at(run),
    "after these samples": lambda run, _: at(run.curve, _samples_at(run)),
    "seconds to target": lambda run, goal: time_to(run.curve, goal),
    "at the end": lambda run, _: at(run.curve, run.seconds),
    "samples per second": lambda run, _: _speed(run),
    "samples": lambda run, _: run.samples,
    "updates": lambda run, _: run.updates,
    "discarded": lambda run, _: run.discarded,
    "largest delay": lambda run, _: max((most for _, most in run.delays.values()), default=0),
    "delay of the latest": lambda run, _: max((mean for mean, _ in run.delays.values()), default=0.0),
}


def mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and the standard deviation; infinity if a run has not come there."""
    if any(not math.isfinite(value) for value in values):
        return math.inf, math.nan
    return fmean(values), stdev(values) if len(values) > 1 else 0.0


def best_of(means: dict[str, float], *, higher: bool) -> str | None:
    """Return the best of some ways; none if nobody has come there."""
    there = {name: value for name, value in means.items() if math.isfinite(value)}
    return (max if higher else min)(there, key=lambda name: there[name]) if there else None
