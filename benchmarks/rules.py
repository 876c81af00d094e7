"""OmniLearn's rule as printed and as released, written anew, to measure against. Neither keeps the global batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

from omnilearn_core.control.reports import Situation
from omnilearn_core.control.shares import Slot, apportion


@dataclass(slots=True)
class _Rule(ABC):
    """A rule over the last window's times, starting from equal shares."""

    shares: dict[str, int] = field(default_factory=dict)

    def split(self, situation: Situation, truth: Sequence[Slot]) -> tuple[dict[str, int], str]:
        """Apply the rule if every worker has reported; start from equal shares when the members change."""
        workers = [member.worker for member in situation.members]
        if self.shares.keys() != set(workers):
            equal = apportion(situation.global_batch, [1.0] * len(workers), situation.bounds())
            self.shares = dict(zip(workers, equal, strict=True))
        times = {report.worker: report.seconds for report in situation.reports}
        if times.keys() == self.shares.keys():
            self.shares = self.revised(times, situation.global_batch)
        return dict(self.shares), "rule"

    @abstractmethod
    def revised(self, times: Mapping[str, float], batch: int) -> dict[str, int]:
        """Return the shares after one window."""


@dataclass(slots=True)
class Printed(_Rule):
    """ACSOS 2020, equations 4 and 5: b ← b · mean(t) / t, all or nothing beyond 5 %. The sum drifts."""

    dead_band: float = 0.05

    def revised(self, times: Mapping[str, float], batch: int) -> dict[str, int]:
        """Scale every share by mean time over own time."""
        mean = sum(times.values()) / len(times)
        new = {w: max(1, min(batch, round(b * mean / times[w]))) for w, b in self.shares.items()}
        moved = max(abs(new[w] - b) / b for w, b in self.shares.items())
        return new if moved > self.dead_band else self.shares


@dataclass(slots=True)
class Released(_Rule):
    """The released code: 20 % dead band per worker, bounds 16 to 96, the rest corrected by equal amounts."""

    dead_band: float = 0.2
    least: int = 16
    most: int = 96

    def revised(self, times: Mapping[str, float], batch: int) -> dict[str, int]:
        """Move who is beyond the dead band, clip, then shift everybody toward the sum."""
        count = len(times)
        mean = sum(times.values()) / count
        wanted = {w: b - b / times[w] * (times[w] - mean) for w, b in self.shares.items()}
        moved = {
            w: want if abs(want - self.shares[w]) / want >= self.dead_band else float(self.shares[w])
            for w, want in wanted.items()
        }
        clipped = {w: min(max(want, self.least), self.most) for w, want in moved.items()}
        overflow = sum(moved.values()) - sum(clipped.values())
        spread = {w: value + ceil(overflow / count) for w, value in clipped.items()}
        surplus = (sum(spread.values()) - batch) / count
        return {w: max(1, ceil(value - surplus)) for w, value in spread.items()}
