"""The work of one round: which samples are whose, what is held, and what is told when it is committed. Plain values."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from .element import Kind, Part
from .group import Group
from .ledger import Intervals, checksum, scaled
from .progress import Progress
from .timing import Lap

log = logging.getLogger("omnilearn")


@dataclass(slots=True)
class Open:
    """The round that is being computed."""

    kind: Kind
    epoch: int
    interval: Intervals
    size: int = 0
    """Size of the pass that a step belongs to."""

    steps: int = 1
    """Of how many global batches it consists."""

    pending: Intervals = field(default_factory=Intervals.of)
    held: Intervals = field(default_factory=Intervals.of)
    tail: Intervals = field(default_factory=Intervals.of)
    """What nobody was given, for whoever is early; empty once nothing of it is left."""

    weight: float = 0.0
    loss: float = 0.0
    """Sum of weight × loss."""

    disturbed: bool = False
    """True if members changed while it was open: its times say nothing about a share."""

    as_planned: bool = False
    """True if it began with just the share: a round without a tail, or a short one, gives more or less."""

    @property
    def end(self) -> int:
        """The position after its last sample."""
        return max((high for _, high in self.interval), default=0)

    @property
    def mean_loss(self) -> float:
        """The weighted mean of the losses of what is held."""
        return self.loss / self.weight if self.weight else 0.0

    def part(self, round_: int, weight: float) -> Part:
        """Return what this worker says of its work in the control element, where all of it weighs ``weight``."""
        loss = self.mean_loss * weight
        return Part(
            kind=self.kind,
            round=round_,
            weight=weight,
            loss=loss if math.isfinite(loss) else 0.0,
            samples=self.held.size,
            checksum=checksum(self.held),
        )

    def hold(self, piece: Intervals, weight: float = 0.0, loss: float = 0.0) -> None:
        """Note that a piece has been computed."""
        self.pending = self.pending.minus(piece)
        self.held = self.held.union(piece)
        self.weight += weight
        self.loss += weight * loss if weight else 0.0

    def forget(self) -> None:
        """Hold nothing."""
        self.held, self.weight, self.loss = Intervals.of(), 0.0, 0.0


@dataclass(frozen=True, slots=True)
class Committed:
    """What is told of a committed round."""

    kind: Kind
    progress: Progress
    group: Group
    plan: int
    share: int
    interval: Intervals
    held: Intervals
    samples: int
    loss: float
    lap: Lap
    disturbed: bool
    as_planned: bool
    steps: int = 1
    """Steps in the times of the lap: not always those of the round, where one begins before the last is committed."""

    beyond: int = 0
    """Samples beyond the share."""

    server: tuple[int, int] | None = None
    """The generation and the round in which the server began that has taken a gradient, if there is a server."""

    kept: Intervals = field(default_factory=Intervals.of)
    """What of the pass was committed when that server began: it has undone what earlier ones had beyond this."""

    delay: int | None = None
    """Updates between handing out the parameters of a gradient and applying it, if the strategy has such delays."""


def batches_of(interval: Intervals, batch: int) -> list[Intervals]:
    """Return the global batches that a round consists of; the last one may be short."""
    whole, rest = divmod(interval.size, batch)
    return interval.split([batch] * whole + [rest] * bool(rest))


def audited(progress: Progress, interval: Intervals, got: tuple[int, int]) -> Progress:
    """Return the progress with what was found missing, or doubled, by comparing what was computed with its interval."""
    after = progress.audited((interval.size, checksum(interval)), got)
    if (after.lost, after.doubled) != (progress.lost, progress.doubled):
        log.error("round %d did not contain exactly its samples: please report this", progress.round + 1)
    return after


def pieces(pending: Intervals, size: int) -> Sequence[Intervals]:
    """Return micro-batches of at most ``size`` samples, as alike as can be."""
    if not pending:
        return []
    count = -(-pending.size // size)
    return pending.split(scaled(pending.size, [1] * count))
