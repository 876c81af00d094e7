"""When the groups of Hierarchical merge: after how many steps, and whether they wait for it. Pure.

DASO's rule (arXiv 2104.05588): blocking merges after every step at the beginning and at the end; between them an
interval that is halved when the loss no longer falls, and becomes long again when it was one and that did not help.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from omnilearn_core.api.strategy import Hierarchical

_IMPROVEMENT = 0.05
_PATIENCE = 2


@dataclass(frozen=True, slots=True)
class Rhythm:
    """What decides the interval; the same on all members, and part of the state that joiners receive."""

    interval: int
    """Steps between two merges while the groups go on meanwhile."""

    best: float | None = None
    """The lowest mean loss of an epoch so far."""

    bad: int = 0
    """Epochs in a row that were not better than that by a twentieth."""

    loss: float = 0.0
    """Sum of weight × loss in the present pass, and of the weights."""

    weight: float = 0.0

    def saw(self, loss: float, weight: float) -> Rhythm:
        """Return the rhythm after a merge of samples with that sum of losses."""
        return replace(self, loss=self.loss + loss, weight=self.weight + weight)

    def after_pass(self, options: Hierarchical, *, merging: bool) -> Rhythm:
        """Return the rhythm after a pass; it is only changed by those in which the groups went on while merging."""
        if not self.weight:
            return self
        mean = self.loss / self.weight
        better = self.best is None or mean < self.best - _IMPROVEMENT * abs(self.best)
        best = mean if better else self.best
        bad = 0 if better else self.bad + 1
        interval = self.interval
        if not merging:
            bad = 0
        elif bad >= _PATIENCE:
            bad = 0
            interval = interval // 2 if interval > 1 else options.max_interval
        return Rhythm(interval, best, bad)

    def to_tree(self) -> dict[str, Any]:
        """Return the rhythm as plain values."""
        return asdict(self)


def is_cycling(options: Hierarchical, pass_: int, left: int | None) -> bool:
    """Tell whether the groups go on while they merge, in a pass after which ``left - 1`` others are to come."""
    return pass_ >= options.warmup_epochs and (left is None or left > options.cooldown_epochs)


def wait_of(options: Hierarchical, steps: int) -> int:
    """Return after how many of a round's steps the last merge is taken in."""
    return max(1, min(options.wait, steps))


def kept(teams: int, waited: int) -> float:
    """Return what a group's own model weighs against the mean that was sent ``waited`` steps ago; 1 if it is alone."""
    return 1.0 if teams == 1 else 2 * waited / (teams + 2 * waited)
