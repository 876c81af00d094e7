"""Many workers of many jobs: how often they report, and how long they are waited for. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

# What all workers of all jobs together may say in a second.
_REPORTS_PER_SECOND = 400.0
_LEAST_SECONDS, _LONGEST_SECONDS = 1.0, 30.0
# So many reports later, everybody has heard of the new pause.
_REPORTS_TO_KNOW = 3.0


@dataclass(frozen=True, slots=True)
class Crowd:
    """The workers of all jobs, among which those of one job are."""

    size: Callable[[], int] = lambda: 0
    arrived: Callable[[], float] = lambda: 0.0
    """When the last of them has come, by the coordinator's clock."""

    return_seconds: float = 0.0
    """How long it may take at most until all are back, if they come at once."""


def report_seconds(workers: int) -> float:
    """Return the pause between two reports of each of so many workers."""
    return min(max(_LEAST_SECONDS, round(workers / _REPORTS_PER_SECOND, 1)), _LONGEST_SECONDS)


@dataclass(slots=True)
class Slowest:
    """The longest pause that somebody may still go by: a shorter one is heard of with the next reply only."""

    seconds: float = _LEAST_SECONDS
    _until: float = 0.0

    def tell(self, seconds: float, now: float) -> float:
        """Take in the pause that is told from now on; return the longest."""
        if seconds >= self.seconds or now > self._until:
            self.seconds, self._until = seconds, now + _REPORTS_TO_KNOW * seconds
        return self.seconds
