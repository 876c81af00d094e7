"""`Proportional`: OmniLearn's controller as its paper describes it, with the sum repaired.

Every share is scaled by (mean time / own time); the times are averages since the last change. Scaling the result
to the global batch makes this a split in proportion to throughput (algebra in docs/decisions.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from . import speeds
from .bounded import Amount, Count, Positive, Share, SomeShare, Windows
from .ceilings import Ceiling, standing, under
from .law import Proposal
from .reports import Report, Situation
from .words import moves, percent, short


class Pace(NamedTuple):
    """One worker since the last change: smoothed step time at its share, and how it went before."""

    share: SomeShare
    seconds: Positive
    windows: Windows
    share_before: Share = 0
    seconds_before: Amount = 0.0

    @property
    def speed(self) -> float:
        """Samples per second."""
        return self.share / self.seconds


@dataclass(frozen=True, slots=True)
class Paces:
    """The memory of `Proportional`: what each worker measured, and the ceilings it has run into."""

    window: Count = 0
    workers: dict[str, Pace] = field(default_factory=dict)
    ceilings: dict[str, Ceiling] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Proportional:
    """Split in proportion to smoothed throughput, all or nothing beyond a dead band."""

    name: str = "Proportional"
    smoothing: float = 0.5
    dead_band: float = 0.05
    fall: float = 0.2  # of throughput after growing, that is more than noise
    ceiling_windows: int = 50  # when to try more again: the paper never does

    def fresh(self) -> Paces:
        """Return an empty memory."""
        return Paces()

    def learn(self, memory: Paces, heard: tuple[Report, ...], situation: Situation) -> Paces:
        """Average each worker's step time since its share last changed; note throughput that fell by growing."""
        workers = dict(memory.workers)
        before = max((workers[r.worker].seconds for r in heard if r.worker in workers), default=0.0)
        step = max((r.seconds for r in heard), default=0.0)
        ceilings = standing(memory.ceilings, memory.window, step)
        for report in heard:
            pace = self._pace(workers.get(report.worker), report)
            workers[report.worker] = pace
            # Only a larger share that made the step longer was a mistake
            worse = pace.seconds > before and report.worker not in ceilings
            if worse and self._is_cliff(pace):
                ceilings[report.worker] = Ceiling(pace.share_before, memory.window + self.ceiling_windows, step)
        return Paces(memory.window + bool(heard), workers, ceilings)

    def propose(self, memory: Paces, situation: Situation, shares: Mapping[str, int] | None) -> Proposal[Paces]:
        """Scale the shares to equal times if any of them would move beyond the dead band."""
        if shares is None:
            known = {worker: pace.speed for worker, pace in memory.workers.items()}
            split, why = speeds.opening(under(memory.ceilings, situation), known)
            return Proposal(memory, split, why)
        waiting = [w for w, share in shares.items() if share and not self._measured(memory, w, share)]
        if waiting:
            return Proposal(memory, dict(shares), f"waiting for a report of {short(waiting[0])}")
        split = self._split(memory, situation)
        largest = max((abs(split[w] - shares[w]) / max(shares[w], 1) for w in split), default=0.0)
        if largest <= self.dead_band:
            return Proposal(memory, dict(shares), f"balanced within {percent(self.dead_band)}")
        return Proposal(memory, split, f"{moves(shares, split)}: in proportion to throughput")

    def _pace(self, pace: Pace | None, report: Report) -> Pace:
        if pace is None:
            return Pace(report.share, report.seconds, 1)
        if pace.share != report.share:
            return Pace(report.share, report.seconds, 1, pace.share, pace.seconds)
        seconds = pace.seconds + self.smoothing * (report.seconds - pace.seconds)
        return pace._replace(seconds=seconds, windows=pace.windows + 1)

    def _is_cliff(self, pace: Pace) -> bool:
        grew = pace.windows == 1 and 0 < pace.share_before < pace.share
        return grew and pace.speed < (1.0 - self.fall) * pace.share_before / pace.seconds_before

    def _measured(self, memory: Paces, worker: str, share: int) -> bool:
        pace = memory.workers.get(worker)
        return pace is not None and pace.share == share

    def _split(self, memory: Paces, situation: Situation) -> dict[str, int]:
        known = {worker: pace.speed for worker, pace in memory.workers.items()}
        weights = speeds.complete(situation.members, known) or [1.0] * len(situation.members)
        return speeds.by_weight(under(memory.ceilings, situation), weights)
