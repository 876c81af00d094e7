"""What workers of one device class tell about each other: the fixed cost of a step.

They run the same script, so their fixed costs are alike, either in seconds or (when it scales with their speed) in
samples. A worker that has only been seen at one share borrows what the others have learned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from .curve import Curve, Numbers

# How unlike the fixed costs of two alike workers may be, relative to the step time.
_UNLIKE = 0.2

# Others who know less than this part of what a worker knows itself have nothing to tell it.
_NOTHING = 1e-9

# One way of pooling must explain the workers better than the other by this (in squared sigmas) to replace it.
_PREFERENCE = 2.0


class Pool(NamedTuple):
    """Precision-weighted fixed costs of a class: the sums, their misfit, and each worker's own."""

    weight: float
    total: float
    misfit: float
    own: list[tuple[float, float, float]]  # cost, precision, variance among alike workers


def prefer_scaling(classes: Iterable[Sequence[Curve]], fixed_scales: bool) -> bool:
    """Tell whether fixed costs are more alike in samples than in seconds; ``fixed_scales`` is the belief so far."""
    advantage = sum(_pool(alike, _in_seconds).misfit - _pool(alike, _in_samples).misfit for alike in classes)
    return fixed_scales if abs(advantage) <= _PREFERENCE else advantage > 0.0


def lean(curves: Sequence[Curve], fixed_scales: bool) -> list[Numbers]:
    """Return the lines of one class, each leaning on what the others know of their fixed cost."""
    if len(curves) == 1:
        return [curves[0].line]
    pool = _pool(curves, _in_samples if fixed_scales else _in_seconds)
    return [_toward(curve.line, own, pool, fixed_scales) for curve, own in zip(curves, pool.own, strict=True)]


def _pool(curves: Sequence[Curve], cost_of: Callable[[Curve], tuple[float, float, float]]) -> Pool:
    """Gather the fixed costs of one class."""
    weight = total = squares = 0.0
    own = []
    for curve in curves:
        cost, variance, span = cost_of(curve)
        apart = (_UNLIKE * span) ** 2
        precision = 1.0 / (variance + apart)
        weight += precision
        total += precision * cost
        squares += precision * cost * cost
        own.append((cost, precision, apart))
    return Pool(weight, total, max(squares - total * total / weight, 0.0), own)


def _toward(line: Numbers, own: tuple[float, float, float], pool: Pool, scales: bool) -> Numbers:
    """Return ``line`` after hearing the others' fixed cost as one more, uncertain reading."""
    cost, precision, apart = own
    fixed, slope, var_fixed, covariance, var_slope = line
    others = pool.weight - precision
    if others <= _NOTHING * pool.weight:
        return line
    mean = (pool.total - precision * cost) / others
    doubt = 1.0 / others + apart
    # The reading is: fixed - mean * per_sample = 0 (in samples), or fixed = mean (in seconds).
    tilt, surprise = (-mean, mean * slope - fixed) if scales else (0.0, mean - fixed)
    toward_fixed = var_fixed + tilt * covariance
    toward_slope = covariance + tilt * var_slope
    spread = toward_fixed + tilt * toward_slope + (doubt * slope * slope if scales else doubt)
    leaning = fixed + toward_fixed * surprise / spread
    steeper = slope + toward_slope * surprise / spread
    var_fixed -= toward_fixed * toward_fixed / spread
    var_slope -= toward_slope * toward_slope / spread
    return (
        leaning if leaning > 0.0 else 0.0,
        steeper if steeper > 0.0 else slope,
        var_fixed if var_fixed > 0.0 else 0.0,
        covariance - toward_fixed * toward_slope / spread,
        var_slope if var_slope > 0.0 else 0.0,
    )


def _in_seconds(curve: Curve) -> tuple[float, float, float]:
    """Return the fixed cost in seconds, its variance, and the step time to compare it with."""
    line = curve.line
    return line.fixed, line.var_fixed, line.fixed + line.per_sample * curve.share


def _in_samples(curve: Curve) -> tuple[float, float, float]:
    """Return the fixed cost in samples, its variance, and the step in samples to compare it with."""
    fixed, slope, var_fixed, covariance, var_slope = curve.line
    cost = fixed / slope
    variance = (var_fixed - cost * (2.0 * covariance - cost * var_slope)) / (slope * slope)
    return cost, variance if variance > 0.0 else 0.0, cost + curve.share
