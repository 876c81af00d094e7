"""How often things are done that can wait: less often the more jobs there are, so that their sum stays bounded. Pure.

What has happened to a job is never put off by this. Only what repeats itself is: progress, shares that move a little,
and looks at jobs to which nothing has happened.
"""

from __future__ import annotations

from dataclasses import dataclass

# The most of each that all jobs together may cause in a second.
_LOOKS, _STATUSES, _SHARES, _EVENTS, _RESYNCS = 50.0, 20.0, 2.0, 5.0, 10.0
_STARTS = 10.0

# At least so many workers come back in a second to an operator that has just started, on the smallest machine.
_LEAST_RETURN_SECONDS, _COME_BACK = 10.0, 25.0


@dataclass(frozen=True, slots=True)
class Pace:
    """Pauses in seconds, as for a few jobs."""

    look: float = 1.0
    """Between looks at a job that trains."""

    status: float = 5.0
    """Between statuses of a job that only say how far it has come."""

    shares: float = 5.0
    """Between patches of the pods of a job whose shares have moved."""

    plans: float = 20.0
    """Between events that tell of new plans."""

    resync: float = 60.0
    """Between lists of what the watch should have told."""

    start: float = 3.0
    """How long a pod may take to be started before its events are read: the API server looks through all for that."""

    takeover: float = 20.0
    """How long an operator that has just started believes what its predecessor has said of a job."""


def pace_for(jobs: int, pods: int = 0) -> Pace:
    """Return the pace for so many jobs with so many pods in all."""
    few = Pace()
    return Pace(
        look=max(few.look, jobs / _LOOKS),
        status=max(few.status, jobs / _STATUSES),
        shares=max(few.shares, jobs / _SHARES),
        plans=max(few.plans, jobs / _EVENTS),
        resync=max(few.resync, jobs / _RESYNCS),
        start=max(few.start, jobs / _STARTS),
        takeover=max(few.takeover, return_seconds(pods)),
    )


def return_seconds(pods: int) -> float:
    """Return how long it may take at most until the workers of so many pods are back."""
    return _LEAST_RETURN_SECONDS + pods / _COME_BACK
