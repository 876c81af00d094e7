"""Who decides, by a Lease: the rules alone. Nothing here reads a clock, waits or sends.

A holder counts from before it sent the last renewal that it knows was taken, and stops before the Lease is over.
Everybody else counts from after they first saw that renewal, and waits for the whole Lease. The API server takes a
change only from those who have seen the last one. So whoever takes the Lease of another knows that the other has
stopped: clocks may be set as they like, if only they run about as fast.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

# Operators that knew of no Lease took their terms from the clock: all of them are below this until the year 2106.
_CLOCK_TERMS = 2**32
TERMS_OF_A_REIGN = 2**24
MOST_REIGNS = 2**28
"""With the terms of each, below the largest number of a message, 2**53."""

# A Lease that was deleted begins to count anew, but workers do not forget: no reign has a lower number than its moment.
# Operators can follow each other within a minute, so a moment is shorter than any reign is likely to be.
_MOMENT_SECONDS = 4
_FIRST_MOMENT = 1_577_836_800 // _MOMENT_SECONDS  # 2020-01-01
_LAST_MOMENT = MOST_REIGNS // 2


@dataclass(frozen=True, slots=True)
class Timing:
    """How long things take, in seconds."""

    lease: float = 10.0
    """After so long without a renewal, another one takes over."""

    @property
    def deadline(self) -> float:
        """How long a holder may decide after its last renewal."""
        return 0.7 * self.lease

    @property
    def margin(self) -> float:
        """What is left of the Lease then: for clocks that run unlike, and for what is still on its way."""
        return self.lease - self.deadline

    @property
    def renewal(self) -> float:
        """How often a holder renews."""
        return min(0.2 * self.lease, 2.0)

    @property
    def look(self) -> float:
        """How often the others look."""
        return min(0.1 * self.lease, 1.0)

    @property
    def again(self) -> float:
        """How soon a holder tries again what has failed."""
        return 0.5 * self.look

    @property
    def call(self) -> float:
        """How long one call may take: another one may find a better way to the API server."""
        return min(0.3 * self.lease, 5.0)


@dataclass(frozen=True, slots=True)
class Lease:
    """A Lease as the API server has it."""

    version: str = ""
    """Changes with every change; empty if there is no Lease."""

    holder: str = ""
    reign: int = 0
    seconds: float = 0.0
    """For how long its holder has it after a renewal."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What one replica knows; all times are those of its own clock."""

    me: str
    lease: Lease = Lease()
    """As it was last seen."""

    sure: bool = False
    """It was looked at since somebody else is known to have changed it."""

    heard: bool = False
    """It was ever looked at."""

    since: float = 0.0
    """When this version of it was first seen."""

    due: float = 0.0
    """When to look at it or to renew it next."""

    reign: int | None = None
    """The reign that is this replica's own."""

    renewed: float = 0.0
    """When the last renewal that is known to have been taken was sent."""

    highest: int = 0
    """The highest reign that was ever seen."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing is due."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Look:
    """Read the Lease."""


@dataclass(frozen=True, slots=True)
class Take:
    """Write this replica into the Lease, if it is still as it was seen."""


@dataclass(frozen=True, slots=True)
class Renew:
    """Write the Lease once more, if it is still as it was seen."""


@dataclass(frozen=True, slots=True)
class StepDown:
    """Stop deciding."""

    why: str


Step = Wait | Look | Take | Renew | StepDown


def next_step(known: Knowledge, now: float, timing: Timing) -> Step:
    """Return what a replica has to do now."""
    return _as_standby(known, now, timing) if known.reign is None else _as_leader(known, now, timing)


def _as_standby(known: Knowledge, now: float, timing: Timing) -> Step:
    free = _free_at(known, timing)
    if known.sure and now >= free:
        return Take()
    if now >= known.due:
        return Look()
    return Wait((min(known.due, free) if known.sure else known.due) - now)


def _free_at(known: Knowledge, timing: Timing) -> float:
    """Return when this replica may take the Lease as it knows it."""
    # What this pod's own earlier process held, nobody holds: a container starts when the one before has ended.
    if known.lease.holder in ("", known.me):
        return known.since
    return known.since + (known.lease.seconds or timing.lease)


def _as_leader(known: Knowledge, now: float, timing: Timing) -> Step:
    end = known.renewed + timing.deadline
    if now >= end:
        return StepDown(f"the Lease could not be renewed within {timing.deadline:g} s")
    if known.sure and not known.lease.version:
        return StepDown("the Lease was deleted")
    if known.sure and (known.lease.holder, known.lease.reign) != (known.me, known.reign):
        return StepDown(f"{known.lease.holder or 'nobody'} has the Lease")
    if now < known.due:
        return Wait(min(known.due, end) - now)
    return Renew() if known.sure else Look()


def decides(known: Knowledge, now: float, timing: Timing) -> bool:
    """Tell whether a replica may decide at this moment."""
    return known.reign is not None and now < known.renewed + timing.deadline


def call_seconds(known: Knowledge, now: float, timing: Timing) -> float:
    """Return how long a call may take: that of a leader not beyond its deadline."""
    return timing.call if known.reign is None else min(timing.call, known.renewed + timing.deadline - now)


def read(known: Knowledge, lease: Lease | None, now: float, timing: Timing) -> Knowledge:
    """Take in how the Lease is; None if there is none."""
    # Whoever held one that was deleted may not have heard of it yet.
    found = lease or replace(known.lease, version="")
    return replace(
        known,
        lease=found,
        sure=True,
        since=known.since if known.heard and found.version == known.lease.version else now,
        heard=True,
        due=now + timing.look if known.reign is None else now,
        highest=max(known.highest, found.reign),
    )


def taken(known: Knowledge, lease: Lease, sent: float, timing: Timing) -> Knowledge:
    """Take in that the Lease was taken or renewed by what was sent then."""
    return replace(
        known,
        lease=lease,
        sure=True,
        heard=True,
        since=sent,
        due=sent + timing.renewal,
        reign=lease.reign,
        renewed=sent,
        highest=max(known.highest, lease.reign),
    )


def refused(known: Knowledge, now: float, timing: Timing, *, changed: bool) -> Knowledge:
    """Take in that a call has failed; ``changed`` if somebody else was faster."""
    if known.reign is None:
        # Nobody knows whether what was sent was taken after all: look before anything else.
        return replace(known, sure=False, due=now + timing.look)
    # A leader that sends the same again will hear whether the first was taken.
    return replace(known, sure=known.sure and not changed, due=now + timing.again)


def stepped_down(known: Knowledge, now: float) -> Knowledge:
    """Take in that this replica does not lead any more."""
    return replace(known, reign=None, sure=False, due=now)


def next_reign(known: Knowledge, wall_seconds: float) -> int:
    """Return the number of the reign that begins by taking the Lease: higher than all before it."""
    moment = int(wall_seconds // _MOMENT_SECONDS) - _FIRST_MOMENT
    return max(known.highest + 1, min(moment, _LAST_MOMENT))


def term_of(reign: int, number: int) -> int:
    """Return a term of a reign: above all terms of all reigns before, and above those that clocks have given."""
    return _CLOCK_TERMS + reign * TERMS_OF_A_REIGN + number
