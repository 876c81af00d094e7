"""What a law hears: who the members are, what they measured, and which reports deserve no hearing.

A report that is broken, doubled, late or from the future is counted by its reason and then forgotten.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

# Step times outside these are mistakes of measurement: a microsecond, and eleven days.
SHORTEST_SECONDS = 1e-6
LONGEST_SECONDS = 1e6

# Less than the kernel can allow a worker, and more than any machine has.
FEWEST_CPUS = 1e-4
MOST_CPUS = 65536.0

# Clocks of the machines that report and decide may differ by this much.
CLOCK_TOLERANCE_SECONDS = 1.0

# A report older than this describes another time: the worker may have changed since.
LATE_AFTER_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Member:
    """A worker that takes part, and what is known of it before it has measured anything."""

    worker: str
    group: str = ""
    device: str = "cpu"
    minimum: int = 1
    maximum: int | None = None
    capacity: float | None = None
    quota: float | None = None
    in_pieces: bool = True
    """Its share may be computed in small pieces."""


class Report(NamedTuple):
    """What one worker measured over one control window: mean compute seconds of a step of ``share`` samples.

    Waiting for others is never part of it. ``ended`` is when the window ended, on the coordinator's clock;
    ``quota`` the CPUs that the worker was allowed meanwhile, if it knows.
    """

    worker: str
    share: int
    seconds: float
    ended: float
    quota: float | None = None


class Refusal(StrEnum):
    """Why a report was not heard."""

    STRANGER = "not a member"
    BROKEN = "not a plausible number"
    FUTURE = "from the future"
    LATE = "too late"
    DOUBLED = "doubled"
    OTHER_SHARE = "of another share"
    OTHER_QUOTA = "of another CPU quota"


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything a law may look at when it decides."""

    global_batch: int
    members: tuple[Member, ...]
    now: float
    reports: tuple[Report, ...] = ()
    epoch: int = 0

    def bounds(self) -> list[tuple[int, int]]:
        """Return the least and the most samples of each member, in the members' order."""
        return [
            (
                member.minimum,
                self.global_batch if member.maximum is None else min(member.maximum, self.global_batch),
            )
            for member in self.members
        ]

    def allows(self, shares: Mapping[str, int]) -> bool:
        """Tell whether the shares are those of the members, keep their bounds and sum to the global batch."""
        if len(shares) != len(self.members) or sum(shares.values()) != self.global_batch:
            return False
        return all(
            low <= shares.get(member.worker, -1) <= high
            for member, (low, high) in zip(self.members, self.bounds(), strict=True)
        )


@dataclass(frozen=True, slots=True)
class Sifted:
    """The reports to learn from, the newest window's end of each worker, and the refusals, counted."""

    heard: tuple[Report, ...]
    newest: dict[str, float]
    refused: dict[str, int]


def sift(
    situation: Situation, shares: Mapping[str, int], newest: Mapping[str, float], refused: Mapping[str, int]
) -> Sifted:
    """Separate the reports that may move a share from those that may not."""
    members = {member.worker: member for member in situation.members}
    heard: list[Report] = []
    # A window that ended in the future was stored by a coordinator whose clock ran ahead.
    latest = situation.now + CLOCK_TOLERANCE_SECONDS
    ends = {worker: end for worker, end in newest.items() if worker in members and end <= latest}
    counts = dict(refused)
    for report in situation.reports:
        member = members.get(report.worker)
        refusal = (
            Refusal.STRANGER
            if member is None
            else _refusal(report, member, shares.get(report.worker), ends.get(report.worker), situation.now)
        )
        if refusal is None:
            heard.append(report)
            ends[report.worker] = report.ended
        else:
            counts[refusal] = counts.get(refusal, 0) + 1
    return Sifted(tuple(heard), ends, counts)


def _is_plausible(report: Report) -> bool:
    """Tell whether the numbers can be true; NaN compares false, so it never is."""
    measured = SHORTEST_SECONDS <= report.seconds <= LONGEST_SECONDS and math.isfinite(report.ended)
    return measured and (report.quota is None or FEWEST_CPUS <= report.quota <= MOST_CPUS)


def _refusal(report: Report, member: Member, share: int | None, newest: float | None, now: float) -> Refusal | None:
    if not _is_plausible(report):
        return Refusal.BROKEN
    if report.ended > now + CLOCK_TOLERANCE_SECONDS:
        return Refusal.FUTURE
    if report.ended < now - LATE_AFTER_SECONDS:
        return Refusal.LATE
    if newest is not None and report.ended <= newest:
        return Refusal.DOUBLED
    if report.share != share or report.share < 1:
        return Refusal.OTHER_SHARE
    if report.quota is not None and member.quota is not None and report.quota != member.quota:
        return Refusal.OTHER_QUOTA
    return None
