"""The work of one round: which samples are whose, what is held, and what is told when it is committed. Plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .element import Kind
from .group import Group
from .ledger import Intervals, scaled
from .progress import Progress
from .timing import Lap


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
    steps: int
    """Steps in the times of the lap: not always those of the round, where one begins before the last is committed."""

    beyond: int
    """Samples beyond the share."""


def batches_of(interval: Intervals, batch: int) -> list[Intervals]:
    """Return the global batches that a round consists of; the last one may be short."""
    whole, rest = divmod(interval.size, batch)
    return interval.split([batch] * whole + [rest] * bool(rest))


def pieces(pending: Intervals, size: int) -> Sequence[Intervals]:
    """Return micro-batches of at most ``size`` samples, as alike as can be."""
    if not pending:
        return []
    count = -(-pending.size // size)
    return pending.split(scaled(pending.size, [1] * count))
