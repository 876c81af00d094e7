"""The model's side of a round, for synchronous training; the other strategies change some of it.

Collects gradients, applies their mean, and knows the state that others are healed with. Knows nothing of members. Used
by `rounds`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from torch import Tensor

from omnilearn_runtime.buckets import Buckets
from omnilearn_runtime.division import Place
from omnilearn_runtime.element import Whole
from omnilearn_runtime.ledger import Intervals
from omnilearn_runtime.managed import Managed
from omnilearn_runtime.reduction import Reduction
from omnilearn_runtime.running import RunningStatistics
from omnilearn_runtime.work import Open

log = logging.getLogger("omnilearn")

_MOST_SKIPPED_IN_A_ROW = 10


class DivergedError(RuntimeError):
    """Too many gradients in a row were not finite."""


class Learner:
    """The managed objects, with this worker's sums for the next update."""

    overlaps = True
    """The sums of the last piece may be reduced while its backward runs."""

    keeps_parts = True
    """What was computed of a round goes into it even if the members change before it is reduced."""

    alike = True
    """All members hold the same after every update, the state of the optimizers, too."""

    exchanges = True
    """The sums are reduced at all."""

    steps = 1
    """Global batches in the next round."""

    short_apart = False
    """A global batch that is short is a round of its own: the times of one with others say nothing about a share."""

    timed_steps = 1
    """Global batches in the times of the last round, unless its steps are counted one by one."""

    in_pass: tuple[int, int | None] | None = None
    """The pass that has begun last, and how many were left with it."""

    step_due = False
    """All that this worker computes for the next step inside the round is there: its team may take it."""

    step_weight = 0.0
    """What that weighs."""

    takes_in = False
    """A round is on its way whose time has come."""

    under_way = False
    """Others have seen what this worker has done since the round began: it cannot begin it anew on its own."""

    in_flight = False
    """A round is on its way, while the one after it is open."""

    local_steps = 0
    """Steps that this worker has taken on its own since the last update."""

    last_local_steps = 0
    """The same, between the last two updates."""

    figures: Mapping[str, float] = MappingProxyType({})
    """What people may want to see, beside what the script logs."""

    again: Callable[[], object] | None = None
    """Computes the gradients of the present micro-batch once more, at whatever the parameters are then."""

    def __init__(self, managed: Managed) -> None:
        self.managed = managed
        self.buckets = self._new_buckets()
        self._statistics = RunningStatistics(managed)

    def begin_pass(self, pass_: int, left: int | None) -> None:
        """Begin a pass over the data, with which ``left`` are left; None if the script has not said how many."""
        self.in_pass = pass_, left

    def join(self, teams: int) -> None:
        """Enter a generation with members of so many groups of the manifest."""

    def begin(self, sizes: Sequence[int]) -> None:
        """Begin a round, or begin it anew; this worker computes so many samples in each of its steps."""

    def sends_ahead(self, opened: Open) -> bool:
        """Tell whether a round is left on its way while the next one begins."""
        del opened
        return False

    def take_step(self, reduction: Reduction, whole: Whole) -> None:
        """Take a step inside a round, with what the team has reduced."""
        raise NotImplementedError

    def lose(self) -> None:
        """Go back to the last update: what was on its way has been lost with its generation."""

    def order(self, order: Tensor, pass_: int, place: Place) -> Tensor:
        """Return which sample stands at each position of a pass, for a worker at that place."""
        del pass_, place
        return order

    def used(self, positions: Intervals) -> list[int] | None:
        """Return the samples at some positions of the pass, where they are not those of everybody's order."""
        del positions
        return None

    def at_once(self, pending: int) -> int:
        """Return how many of the samples that are left may be computed at the present parameters."""
        return pending

    def backward(
        self, run: Callable[[], object], samples: int, weight: float, ready: Callable[[int], None] | None
    ) -> None:
        """Run a backward pass over some samples and add its gradients, times ``weight``, to the sums."""
        self.buckets.backward(run, weight, ready)

    def saw(self, samples: Sequence[int], losses: Tensor) -> None:
        """Take note of the losses of some samples, or of their mean."""

    def settle(self) -> None:
        """Take in that there is nothing more to compute for now."""

    def weigh(self, weight: float) -> float:
        """Return what this worker's sums weigh, now that all of its samples, with that weight, are in."""
        return weight

    def contributions(self, opened: Open) -> list[Tensor]:
        """Return what is summed over all members beside the sums: running statistics, times samples."""
        statistics = self._statistics.contribution(opened.held.size)
        return [] if statistics is None else [statistics]

    def forget(self) -> None:
        """Drop all sums, and what the forward passes have left in running statistics."""
        self._statistics.restore()
        self._drop_sums()

    def _drop_sums(self) -> None:
        self.buckets.discard_gradients()
        self.buckets.clear()

    def refresh(self) -> None:
        """Follow the script if it has frozen or unfrozen parameters, as all workers do at the same round."""
        if [name for name, _ in self.managed.trainable()] != self.buckets.names:
            self.buckets.close()
            self.buckets = self._new_buckets()

    def update(self, reduction: Reduction, whole: Whole, contributions: list[Tensor]) -> bool:
        """Update the model with what was reduced; False if the step is skipped, by all members alike."""
        finite = whole.weight > 0 and reduction.give(whole)
        if not finite:
            log.warning("a step is skipped: its gradient is not finite, or its weights sum to 0")
        self._apply(finite=finite, counts=whole.weight > 0)
        if finite and not self.managed.scheduler_per_epoch:
            self.managed.schedule()
        self._statistics.apply(contributions[0] if finite and self._statistics.exist else None, whole.samples)
        reduction.recycle()
        self.buckets.clear()
        return finite

    def _apply(self, *, finite: bool, counts: bool) -> None:
        """Update the model with the gradients that the parameters hold."""
        # A gradient scaler looks for itself, and learns from it.
        if finite or (self.managed.scaler is not None and counts):
            self.managed.update()

    def check(self, skipped_in_a_row: int) -> None:
        """Raise DivergedError if there is no use in going on."""
        # A scaler has to find its scale first.
        most = _MOST_SKIPPED_IN_A_ROW * (1 if self.managed.scaler is None else 10)
        if skipped_in_a_row >= most:
            raise DivergedError(
                f"the gradients of {most} steps in a row were not finite: the training has diverged; "
                "lower the learning rate, clip gradients (clip_norm), or look for a division by zero in the loss"
            )

    def to_tree(self) -> dict[str, Any]:
        """Return the state after the last update."""
        return self._statistics.as_committed(self.managed.to_tree)

    def load(self, tree: dict[str, Any]) -> None:
        """Become that state; the sums belong to another."""
        self.managed.load(tree)
        self._statistics.commit()
        self._drop_sums()
        self.refresh()

    def align(self, tree: dict[str, Any]) -> None:
        """Take over from that state what is not the same on all members."""

    def course_hash(self) -> str:
        """Return a digest of what is the same in a team only; empty if there is no such thing."""
        return ""

    def parameter_hash(self) -> str:
        """Return a digest of all parameters after the last update."""
        return self.managed.parameter_hash()

    def _new_buckets(self) -> Buckets:
        trainable = self.managed.trainable()
        return Buckets([parameter for _, parameter in trainable], [name for name, _ in trainable])
