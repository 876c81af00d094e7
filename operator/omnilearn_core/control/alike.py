"""Workers of one group are made alike: as long as the readings say so, they share their speed, too.

An empirical-Bayes estimate. The closer the group's lines are to each other, measured by their own doubt, the more each
leans on the mean; when they really differ, next to nothing happens. It takes the noise out of groups.
"""

from __future__ import annotations

from collections.abc import Sequence

from .curve import Numbers

# Of two workers it can hardly be told whether they differ.
FEWEST = 3

# Nothing is known more exactly than this relative variance; it also keeps a line without doubt from dividing by zero.
_EXACT = 1e-12


def gather(lines: Sequence[Numbers], share: float) -> Sequence[Numbers]:
    """Return the lines of one group, drawn together at ``share`` as far as their doubts allow."""
    count = len(lines)
    if count < FEWEST:
        return lines
    times: list[float] = []
    total = weighted = squares = 0.0
    for fixed, slope, var_fixed, covariance, var_slope in lines:
        time = fixed + slope * share
        variance = var_fixed + share * (2.0 * covariance + share * var_slope)
        weight = 1.0 / ((variance if variance > 0.0 else 0.0) + _EXACT * time * time)
        times.append(time)
        total += weight
        weighted += weight * time
        squares += weight * time * time
    mean = weighted / total
    spread = max(squares - weighted * mean, 0.0)
    # Were they all the same, the spread would be about count - 1: what exceeds it is how far they are apart.
    apart = max(0.0, 1.0 - (count - 1) / spread) if spread > 0.0 else 0.0
    doubt = apart + (1.0 - apart) / count
    drawn = []
    for (fixed, slope, var_fixed, covariance, var_slope), time in zip(lines, times, strict=True):
        factor = apart + (1.0 - apart) * mean / time
        scale = factor * factor * doubt
        drawn.append((fixed * factor, slope * factor, var_fixed * scale, covariance * scale, var_slope * scale))
    return drawn
