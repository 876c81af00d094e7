"""How much one worker and one job may ask of a coordinator, so that a noisy one cannot starve the others."""

from __future__ import annotations

from dataclasses import dataclass

# A worker reports once a second and says a few words more when its generation changes. What is large counts as many.
_BURST_OF_A_WORKER, _EACH_SECOND_OF_A_WORKER = 200.0, 20.0
_CHARACTERS_OF_ONE = 2**16

# All workers of a job together: its reports, and a few words from everybody at once.
_LEAST_BURST_OF_A_JOB, _EACH_SECOND_OF_A_JOB = 2000.0, 2000.0
_WORDS_OF_A_REGROUP = 8

# A worker has one connection; a second one takes the place of the first, which may take a moment to go.
MOST_CONNECTIONS_OF_A_WORKER = 3
_BURST_OF_DIALS, _DIALS_EACH_SECOND = 20.0, 1.0
_SPARE_CONNECTIONS_OF_A_JOB = 64
# Who reports is heard of anyway; this is for connections on which nobody has to say anything.
_LEAST_HEARTBEAT_SECONDS = 30.0


@dataclass(slots=True)
class Allowance:
    """So much at once, and so much each second again."""

    burst: float
    each_second: float
    at: float
    """When it was last looked at; whoever makes it says since when it counts."""

    spent: float = 0.0

    def take(self, now: float) -> bool:
        """Take one if there is one left."""
        self._refill(now)
        if self.spent > self.burst - 1.0:
            return False
        self.spent += 1.0
        return True

    def owe(self, now: float, cost: float = 1.0) -> float:
        """Take so much in any case; return for how many seconds to take nothing more."""
        self._refill(now)
        self.spent += cost
        return max(0.0, self.spent - self.burst) / self.each_second

    def left(self, now: float) -> bool:
        """Tell whether there is one left."""
        self._refill(now)
        return self.spent <= self.burst - 1.0

    def _refill(self, now: float) -> None:
        self.spent = max(0.0, self.spent - (now - self.at) * self.each_second)
        self.at = now


def cost_of(size: int) -> float:
    """Return what a message of a size counts as."""
    return 1.0 + size / _CHARACTERS_OF_ONE


def of_a_worker(now: float) -> Allowance:
    """Return what may be heard on one connection."""
    return Allowance(_BURST_OF_A_WORKER, _EACH_SECOND_OF_A_WORKER, now)


def of_a_job(most: int, now: float) -> Allowance:
    """Return what may be heard from a job with at most so many workers."""
    return Allowance(max(_LEAST_BURST_OF_A_JOB, float(_WORDS_OF_A_REGROUP * most)), _EACH_SECOND_OF_A_JOB, now)


def of_dials(now: float) -> Allowance:
    """Return how often a worker may connect."""
    return Allowance(_BURST_OF_DIALS, _DIALS_EACH_SECOND, now)


def connections_of_a_job(most: int) -> int:
    """Return how many connections a job with at most so many workers may have."""
    return 2 * most + _SPARE_CONNECTIONS_OF_A_JOB


def heartbeat(silent_after: float) -> float:
    """Return after how much silence a connection is asked whether somebody is still there."""
    return max(silent_after, _LEAST_HEARTBEAT_SECONDS)
