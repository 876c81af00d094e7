"""Many workers of many jobs: how often they report, and how long they are waited for when all of them come back."""

from __future__ import annotations

from dataclasses import dataclass

# What all workers of all jobs together may say in a second.
_REPORTS_PER_SECOND = 400.0
_LEAST_SECONDS, _LONGEST_SECONDS = 1.0, 30.0
# So many reports later, everybody has heard of the new pause.
_REPORTS_TO_KNOW = 3.0


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


class Crowd:
    """The workers of all jobs of one process; their coordinators share it."""

    def __init__(self) -> None:
        self.size = 0
        """How many are connected."""

        self._slowest = Slowest()
        self._expected, self._expected_until = 0, 0.0
        self._arrived = 0.0

    def expect(self, workers: int, seconds: float, now: float) -> None:
        """Take in that so many may come back, all at once, and that this takes so long at most."""
        self._expected, self._expected_until = workers, now + seconds

    def come(self, now: float) -> None:
        """Count somebody who has come."""
        self.size, self._arrived = self.size + 1, now

    def go(self) -> None:
        """Count somebody who has gone."""
        self.size -= 1

    @property
    def report_seconds(self) -> float:
        """How often each should report: those who are not back yet report as they did."""
        return report_seconds(max(self.size, self._expected))

    def longest_pause(self, seconds: float, now: float) -> float:
        """Return the longest pause that somebody may go by, if some are told this one from now on."""
        if now > self._expected_until:
            self._expected = 0
        return self._slowest.tell(max(seconds, self.report_seconds), now)

    def arrived(self, now: float) -> float:
        """Return when the last one has come, within the time in which all may come back; else 0."""
        return self._arrived if self._expected and now <= self._expected_until else 0.0
