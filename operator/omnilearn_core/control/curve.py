"""One worker's step time as a line, ``seconds(share) = fixed + per_sample * share``, learned window by window.

A Kalman filter over (fixed, per_sample): every window is a noisy reading of the line at one share. The covariance
knows which direction has not been seen (a constant share tells nothing of the slope), so a reading at a new share
is not mistaken for a change of speed. A real change is detected (`observe`) and makes the filter forget along the
direction in which speeds change. Measured and chosen in docs/decisions.md.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from .bounded import Amount, Cpus, Positive, Signed, SomeShare, Variance
from .tuning import Tuning

# A line that expects this many times what was expected and read has lost its way between extreme readings.
_ABSURD = 1e3

# One window counts as at most three sigmas of noise, so that a hiccup does not hide the next change of speed.
_MOST_SIGMAS_SQUARED = 9.0


# A line without its name. Thousands are made in one decision, and a plain tuple is made ten times as fast.
Numbers = tuple[float, float, float, float, float]


class Line(NamedTuple):
    """Step seconds over the share, with the covariance of its two numbers."""

    fixed: Amount
    per_sample: Positive
    var_fixed: Variance
    covariance: Signed
    var_slope: Variance


class Curve(NamedTuple):
    """What is known of one worker. Immutable; a tuple, for speed and for short JSON."""

    line: Line
    noise_sum: Amount  # of squared relative surprises, and …
    noise_windows: Amount  # … how many of them
    creep: Signed  # surprises that added up, in sigmas; signed
    settled: Amount  # windows since the last change of speed
    share: SomeShare  # of the newest reading
    seconds: Positive  # the newest reading
    quota: Cpus | None  # CPUs during the newest reading


def first(share: int, seconds: float, quota: float | None, tuning: Tuning) -> Curve:
    """Return the curve that a single reading suggests."""
    line = _first_line(share, seconds, tuning)
    return Curve(
        line, noise_sum=0.0, noise_windows=0.0, creep=0.0, settled=1.0, share=share, seconds=seconds, quota=quota
    )


def _first_line(share: int, seconds: float, tuning: Tuning) -> Line:
    fixed = tuning.first_fixed * seconds
    doubt = (tuning.first_doubt * seconds) ** 2
    noise = (tuning.first_noise * seconds) ** 2
    return Line(fixed, (seconds - fixed) / share, doubt, -doubt / share, (doubt + noise) / share**2)


def observe(
    curve: Curve, share: int, seconds: float, noise_variance: float, fixed_scales: bool, tuning: Tuning
) -> tuple[Curve, float | None]:
    """Return the curve after one more reading, and by what ratio its speed jumped if it did.

    ``noise_variance`` is of a window's relative noise; ``fixed_scales`` tells whether the fixed cost grows and shrinks
    with the worker's speed (interpreter, CPU limits) or stays (latency of a device or a disk).
    """
    line, total, windows, creep, settled, _, _, quota = curve
    numbers = loosen(line, tuning.drift, fixed_scales)
    fixed, slope, var_fixed, covariance, var_slope = numbers
    expected = fixed + slope * share
    surprise = seconds - expected
    doubt = noise_variance * expected * expected
    variance = var_fixed + share * (2.0 * covariance + share * var_slope)
    sigmas = surprise / math.sqrt((variance if variance > 0.0 else 0.0) + doubt)
    creep = _creep(creep, sigmas, tuning.creep_slack)
    far = abs(sigmas) > tuning.jump_sigmas or abs(creep) > tuning.creep_sigmas
    if far and abs(surprise) > tuning.jump_least * expected:
        scale = expected if fixed_scales else max(slope * share, tuning.least_slope * expected)
        numbers = loosen(numbers, abs(surprise) / scale, fixed_scales)
        line = _corrected(numbers, share, seconds, doubt, tuning)
        return Curve(line, total, windows, 0.0, 1.0, share, seconds, quota), seconds / expected
    keep = 1.0 if windows < tuning.noise_windows else 1.0 - 1.0 / tuning.noise_windows
    squared = sigmas * sigmas
    total = total * keep + (squared if squared < _MOST_SIGMAS_SQUARED else _MOST_SIGMAS_SQUARED) * noise_variance
    line = _corrected(numbers, share, seconds, doubt, tuning)
    return Curve(line, total, windows * keep + 1.0, creep, settled + 1.0, share, seconds, quota), None


def deviation(line: Numbers, share: int) -> float:
    """Return the standard deviation of the seconds that the line expects of ``share`` samples."""
    _, _, var_fixed, covariance, var_slope = line
    variance = var_fixed + share * (2.0 * covariance + share * var_slope)
    return math.sqrt(variance) if variance > 0.0 else 0.0


def loosen(line: Numbers, ratio: float, fixed_scales: bool) -> Numbers:
    """Return the line with doubt added: the worker's speed may have changed by about ``ratio``."""
    fixed, slope, var_fixed, covariance, var_slope = line
    toward_slope = slope * ratio
    if fixed_scales:
        toward_fixed = fixed * ratio
        var_fixed += toward_fixed * toward_fixed
        covariance += toward_fixed * toward_slope
    return fixed, slope, var_fixed, covariance, var_slope + toward_slope * toward_slope


def scaled(line: Numbers, ratio: float, fixed_scales: bool, doubt: float) -> Numbers:
    """Return the line of the same worker when everything that scales takes ``ratio`` times as long."""
    fixed, slope, var_fixed, covariance, var_slope = line
    factor = ratio if fixed_scales else 1.0
    moved = (
        fixed * factor,
        slope * ratio,
        var_fixed * factor * factor,
        covariance * factor * ratio,
        var_slope * ratio * ratio,
    )
    return loosen(moved, doubt, fixed_scales)


def _creep(creep: float, sigmas: float, slack: float) -> float:
    """Add up surprises of one sign beyond the slack (a two-sided CUSUM); the other sign starts anew."""
    total = abs(sigmas) - slack + (abs(creep) if creep * sigmas > 0.0 else 0.0)
    return math.copysign(total, sigmas) if total > 0.0 else 0.0


def _corrected(line: Numbers, share: int, seconds: float, doubt: float, tuning: Tuning) -> Line:
    """Return the line after a reading: one Kalman step, kept where a line makes sense."""
    fixed, slope, var_fixed, covariance, var_slope = line
    toward_fixed = var_fixed + share * covariance
    toward_slope = covariance + share * var_slope
    variance = toward_fixed + share * toward_slope
    total = (variance if variance > 0.0 else 0.0) + doubt
    expected = fixed + slope * share
    step = (seconds - expected) / total
    fixed += toward_fixed * step
    slope += toward_slope * step
    var_fixed -= toward_fixed * toward_fixed / total
    covariance -= toward_fixed * toward_slope / total
    var_slope -= toward_slope * toward_slope / total
    if var_fixed < 0.0 or var_slope < 0.0:  # rounding alone
        var_fixed, covariance, var_slope = max(var_fixed, 0.0), 0.0, max(var_slope, 0.0)
    if fixed < 0.0:  # the most likely line among those without a negative fixed cost
        if var_fixed > 0.0:
            slope -= covariance / var_fixed * fixed
        fixed = 0.0
    least = tuning.least_slope * seconds / share
    if slope < least:
        slope, fixed = least, max(seconds - least * share, 0.0)
    if not fixed + slope * share <= _ABSURD * max(seconds, expected):  # nor is NaN
        return _first_line(share, seconds, tuning)
    return Line(fixed, slope, var_fixed, covariance, var_slope)
