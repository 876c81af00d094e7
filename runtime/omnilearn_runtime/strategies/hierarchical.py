"""Hierarchical training as in DASO: the workers of a group train in step, and the groups merge every few steps.

A round is the steps between two merges. While one is reduced, the groups go on with the next round, and take the mean
in some steps later, weighed against where they are by then. The state of the job after a round is that mean, which is
the same on all members: whoever is healed begins there, and so does everybody when a generation is lost. So a worker
that dies costs no sample, though its group may know of steps that nobody else has seen.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from omnilearn_core.api.strategy import Hierarchical
from omnilearn_runtime.element import Kind, Whole
from omnilearn_runtime.managed import Managed
from omnilearn_runtime.reduction import Reduction
from omnilearn_runtime.work import Open

from .learner import Learner, log
from .rhythm import Rhythm, is_cycling, kept, wait_of


@dataclass(frozen=True, slots=True)
class _State:
    """Parameters and what belongs to them, as they were once."""

    parameters: list[Tensor]
    values: list[Tensor]
    course: dict[str, Any]


class HierarchicalLearner(Learner):
    """The model of this worker's team, on its way since the last merge."""

    overlaps = False
    keeps_parts = False
    alike = False

    def __init__(self, managed: Managed, options: Hierarchical) -> None:
        super().__init__(managed)
        self._options = options
        self._rhythm = Rhythm(options.interval)
        self._cycling, self._ends_pass, self._teams = False, False, 1
        self._sizes: Sequence[int] = ()
        self._taken, self._samples, self._sent_steps = 0, 0, 0
        self._moved = False
        self._sent: _State | None = None
        self._base = self._snapshot()

    # Rounds and steps

    @property
    def steps(self) -> int:  # type: ignore[override]
        """Global batches in the next round."""
        return self._rhythm.interval if self._cycling else 1

    @property
    def exchanges(self) -> bool:  # type: ignore[override]
        """One team has nobody to merge with."""
        return self._teams > 1

    @property
    def step_due(self) -> bool:  # type: ignore[override]
        """All of this worker's samples of the next step are there."""
        return self._taken < len(self._sizes) and self._samples >= self._sizes[self._taken]

    @property
    def takes_in(self) -> bool:  # type: ignore[override]
        """The merge that is on its way has been waited for."""
        return self.in_flight and self._taken >= wait_of(self._options, len(self._sizes))

    @property
    def under_way(self) -> bool:  # type: ignore[override]
        """The team has taken a step."""
        return self._moved

    def begin_pass(self, pass_: int, left: int | None) -> None:
        """Find out whether the groups go on while they merge, in this pass."""
        super().begin_pass(pass_, left)
        self._cycling = is_cycling(self._options, pass_, left)

    def join(self, teams: int) -> None:
        """Note with how many others to merge."""
        self._teams = teams

    def begin(self, sizes: Sequence[int]) -> None:
        """Begin a round at its first step."""
        self._sizes, self._taken, self._samples, self.step_weight = sizes, 0, 0, 0.0

    def at_once(self, pending: int) -> int:
        """Return how many samples are left of the present step."""
        size = self._sizes[self._taken] if self._taken < len(self._sizes) else pending
        return max(1, min(pending, size - self._samples)) if pending else 0

    def backward(
        self, run: Callable[[], object], samples: int, weight: float, ready: Callable[[int], None] | None
    ) -> None:
        """Add gradients to those of the present step."""
        super().backward(run, samples, weight, None)
        self._samples += samples
        self.step_weight += weight

    def take_step(self, reduction: Reduction, whole: Whole) -> None:
        """Step the optimizer with the mean gradient of the team; with nothing, if it has no sample in this step."""
        self._moved = True
        if whole.weight > 0:
            # A gradient that is not finite makes the model so, and the merge is skipped, by all members alike.
            reduction.give(whole)
            self.managed.update()
        else:
            self.managed.pass_over()
        if not self.managed.scheduler_per_epoch:
            self.managed.schedule()
        reduction.recycle()
        self.buckets.clear()
        self._taken += 1
        self._samples, self.step_weight = 0, 0.0

    # Merging

    def sends_ahead(self, opened: Open) -> bool:
        """At the end of a pass, and in warm-up and cool-down, merges are waited for."""
        return self._cycling and opened.kind is Kind.STEP and opened.end < opened.size

    def weigh(self, weight: float) -> float:
        """Put how far this worker's team has come, times what it has computed itself, into the sums."""
        self.buckets.clear()
        if weight and self.exchanges:
            values = dict(zip(self._base.parameters, self._base.values, strict=True))
            with torch.no_grad():
                for bucket in self.buckets.buckets:
                    for place, parameter in enumerate(bucket.parameters):
                        bucket.add(place, values[parameter] - parameter, weight)
        self._sent_steps = self._taken
        return weight

    def contributions(self, opened: Open) -> list[Tensor]:
        """Return running statistics; remember whether the pass ends here."""
        self._ends_pass = opened.end >= opened.size
        return super().contributions(opened)

    def update(self, reduction: Reduction, whole: Whole, contributions: list[Tensor]) -> bool:
        """Take in a merge, weighed against the steps since it was sent; False if it is skipped, by all alike."""
        sent, base = self._sent, self._base
        means = self._means(reduction, whole, base.parameters if sent is None else sent.values)
        if means is None:
            log.warning("the steps since the last merge are skipped: the merged model is not finite")
            self.lose()
        else:
            own = kept(self._teams, self._taken) if sent is not None and self._taken else 0.0
            with torch.no_grad():
                for parameter, mean in zip(base.parameters, means, strict=True):
                    parameter.copy_(own * parameter + (1 - own) * mean if own else mean)
            # Otherwise the next round begins here, and nothing has to be remembered until then.
            self._moved = sent is not None
            self._base = base if sent is None else _State(base.parameters, means, sent.course)
            self._rhythm = self._rhythm.saw(whole.loss, whole.weight)
        if self._ends_pass:
            self._rhythm = self._rhythm.after_pass(self._options, merging=self._cycling)
        self._sent, self.in_flight, self.last_local_steps = None, False, self._sent_steps
        exist = means is not None and self._statistics.exist
        self._statistics.apply(contributions[0] if exist else None, whole.samples)
        reduction.recycle()
        self.buckets.clear()
        return means is not None

    def _means(self, reduction: Reduction, whole: Whole, sent: list[Tensor]) -> list[Tensor] | None:
        """Return the merged model; None if it is not finite, on all members alike."""
        if not self.exchanges:
            values = [each.detach().clone() for each in sent]
            return values if all(bool(torch.isfinite(each.sum())) for each in values) else None
        if whole.weight <= 0 or not reduction.give(whole):
            return None
        return [
            value if parameter.grad is None else value - parameter.grad
            for parameter, value in zip(self._base.parameters, self._base.values, strict=True)
        ]

    # The state

    def refresh(self) -> None:
        """Follow the script if it has frozen or unfrozen parameters; remember where the round begins."""
        super().refresh()
        if self.in_flight:
            # What is on its way are copies.
            self.buckets.clear()
            self._sent = self._snapshot()
        else:
            self._base, self._moved = self._snapshot(), False

    def forget(self) -> None:
        """Go back to where the open round began."""
        if self._moved:
            self._restore(self._sent or self._base)
            self._moved = self._sent is not None
        self.begin(self._sizes)
        super().forget()

    def lose(self) -> None:
        """Go back to the last merge."""
        self._sent, self.in_flight = None, False
        self.forget()

    def to_tree(self) -> dict[str, Any]:
        """Return the state after the last merge: the merged model, and the optimizer's state as it was when sent."""
        rhythm = {"rhythm": self._rhythm.to_tree()}
        if not self._moved:
            return super().to_tree() | rhythm
        own = self._at_base()
        tree = super().to_tree()
        # Copies, because they are read when this worker is on its own way again.
        tree["models"] = {
            name: {key: each.clone() for key, each in states.items()} for name, states in tree["models"].items()
        }
        self._set(self._base.parameters, own)
        return tree | self._base.course | rhythm

    def load(self, tree: dict[str, Any]) -> None:
        """Become that state."""
        self._sent, self.in_flight = None, False
        super().load(tree)
        # What another strategy has saved, before Auto chose this one, has no rhythm.
        self._rhythm = Rhythm(**tree["rhythm"]) if "rhythm" in tree else Rhythm(self._options.interval)

    def align(self, tree: dict[str, Any]) -> None:
        """Take over the optimizer's state: the members of a team must have the same, whoever joins it."""
        self.managed.load_course(tree)
        self._base = self._snapshot()

    def course_hash(self) -> str:
        """Return a digest of the state of the optimizers."""
        digest = hashlib.blake2b(digest_size=16)
        _digest(self.managed.course()["optimizers"], digest.update)
        return digest.hexdigest()

    def parameter_hash(self) -> str:
        """Return a digest of the merged model."""
        own = self._at_base() if self._moved else None
        found = super().parameter_hash()
        if own is not None:
            self._set(self._base.parameters, own)
        return found

    def _snapshot(self) -> _State:
        parameters: list[Tensor] = list(self.buckets.parameters)
        values = [each.detach().clone() for each in parameters]
        return _State(parameters, values, copy.deepcopy(self.managed.course()))

    def _restore(self, state: _State) -> None:
        self._set(state.parameters, state.values)
        self.managed.load_course(copy.deepcopy(state.course))

    def _at_base(self) -> list[Tensor]:
        """Put the merged model in the place of this team's own, which is returned."""
        own = [each.detach().clone() for each in self._base.parameters]
        self._set(self._base.parameters, self._base.values)
        return own

    @torch.no_grad()
    def _set(self, parameters: Sequence[Tensor], values: Sequence[Tensor]) -> None:
        for parameter, value in zip(parameters, values, strict=True):
            parameter.copy_(value)


def _digest(value: Any, update: Callable[[bytes], object]) -> None:
    """Hash nested dictionaries and lists of tensors and plain values."""
    if isinstance(value, Tensor):
        update(value.detach().to("cpu").contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            update(str(key).encode())
            _digest(value[key], update)
    elif isinstance(value, (list, tuple)):
        for each in value:
            _digest(each, update)
    else:
        update(repr(value).encode())
