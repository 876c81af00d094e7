"""`PerEpoch`: dynamic batch size (DBS), once per epoch, by the epoch's mean throughput (arXiv 2007.11831)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from . import speeds
from .bounded import Count, Positive, Windows
from .law import Proposal
from .reports import Report, Situation
from .words import moves


class Tally(NamedTuple):
    """One worker's epoch so far: samples and compute seconds of its windows, each window counted once."""

    samples: Windows
    seconds: Positive

    @property
    def speed(self) -> float:
        """Samples per second."""
        return self.samples / self.seconds


@dataclass(frozen=True, slots=True)
class Epoch:
    """The memory of `PerEpoch`: the running epoch, and the speeds of the last one that ended."""

    number: Count = 0
    tallies: dict[str, Tally] = field(default_factory=dict)
    speeds: dict[str, Positive] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PerEpoch:
    """Split in proportion to the last epoch's throughput when a new epoch begins."""

    name: str = "PerEpoch"

    def fresh(self) -> Epoch:
        """Return an empty memory."""
        return Epoch()

    def learn(self, memory: Epoch, heard: tuple[Report, ...], situation: Situation) -> Epoch:
        """Add the windows to their workers' tallies."""
        tallies = dict(memory.tallies)
        for report in heard:
            samples, seconds = tallies.get(report.worker, (0, 0.0))
            tallies[report.worker] = Tally(samples + report.share, seconds + report.seconds)
        return Epoch(memory.number, tallies, memory.speeds)

    def propose(self, memory: Epoch, situation: Situation, shares: Mapping[str, int] | None) -> Proposal[Epoch]:
        """Split anew at an epoch's beginning; in between, keep."""
        known = memory.speeds | {worker: tally.speed for worker, tally in memory.tallies.items()}
        begun = Epoch(situation.epoch, {}, known) if situation.epoch > memory.number else memory
        if shares is None:
            split, why = speeds.opening(situation, known)
            return Proposal(begun, split, why)
        if begun is memory:
            return Proposal(memory, dict(shares), f"epoch {memory.number} goes on")
        weights = speeds.complete(situation.members, known)
        if weights is None:
            return Proposal(begun, dict(shares), "nothing was measured in the last epoch")
        split = speeds.by_weight(situation, weights)
        why = "as before" if split == shares else moves(shares, split)
        return Proposal(begun, split, f"{why}: throughput of epoch {memory.number}")
