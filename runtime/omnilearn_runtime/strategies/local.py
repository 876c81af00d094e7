"""Local SGD: a worker takes steps of its own through its part of a round; then the models are merged.

What is reduced is how far each worker has come from the model of the last merge, times its weight. So a worker that is
lost costs what it had computed and nothing else, and the others keep where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from omnilearn_core.api.strategy import LocalSGD, Outer, Sampling
from omnilearn_runtime.buckets import Bucket
from omnilearn_runtime.division import Place
from omnilearn_runtime.element import Whole
from omnilearn_runtime.ledger import Intervals
from omnilearn_runtime.managed import Managed, UnsuitableError
from omnilearn_runtime.reduction import Reduction
from omnilearn_runtime.work import Open

from .learner import Learner
from .local_rules import Bvr, rule_of
from .sampling import LossBias

_ENDLESS = 2**62


class LocalLearner(Learner):
    """The model on its own way since the last merge, and the model of that merge."""

    overlaps = False
    short_apart = True

    def __init__(self, managed: Managed, options: LocalSGD) -> None:
        super().__init__(managed)
        self._options = options
        self._outer = _outer_optimizer(managed, options)
        self._rule = rule_of(options.rule, managed)
        biased = options.sampling is Sampling.LOSS_BIASED
        self.bias = LossBias(options.hard_samples, options.hard_ratio) if biased else None
        self._merged = self._copies()
        self._seen: set[int] = set()
        self._samples, self._weight, self._weighed = 0, 0.0, False
        self.steps = options.interval
        self._round: Sequence[int] = ()
        self._sizes: Sequence[int] = ()
        self._way_weight = 0.0
        self._rule.keep()
        self._begin()

    def begin(self, sizes: Sequence[int]) -> None:
        """Begin a round, or go on with it in another generation: a step that was not whole is taken as it is."""
        if self._options.by_shares:
            self._step()
        self._round = self._sizes = [size for size in sizes if size]
        self.timed_steps = len(sizes)

    @property
    def _size(self) -> int:
        """Samples of the present local step."""
        if not self._options.by_shares:
            return self._options.batch
        # What comes beyond the shares is one step.
        return self._sizes[0] if self._sizes else _ENDLESS

    def order(self, order: Tensor, pass_: int, place: Place) -> Tensor:
        """Return the order of the pass, or one in which this worker has hard samples."""
        return order if self.bias is None else self.bias.order(order, pass_, place)

    def used(self, positions: Intervals) -> list[int] | None:
        """Return the samples at some positions of the pass, where they are not those of everybody's order."""
        return None if self.bias is None else self.bias.at(positions)

    def at_once(self, pending: int) -> int:
        """Return how many samples are left of the present local step."""
        return pending if self._rule.anchors else min(pending, self._size - self._samples)

    def saw(self, samples: Sequence[int], losses: Tensor) -> None:
        """Note how hard some samples are."""
        if self.bias is not None:
            self.bias.saw(samples, losses)

    def backward(
        self, run: Callable[[], object], samples: int, weight: float, ready: Callable[[int], None] | None
    ) -> None:
        """Add gradients to those of the present local step; take it when all its samples are in."""
        if self._weighed and not self._rule.anchors:
            # A generation was lost after this worker had weighed its way: it goes on from there.
            self.buckets.clear()
        self._weighed = False
        super().backward(run, samples, weight, None)
        if self._rule.anchors:
            return
        if isinstance(self._rule, Bvr):
            self._subtract_gradient_before(self._rule, weight)
        self._samples += samples
        self._weight += weight
        self._way_weight += weight
        if self._samples >= self._size:
            self._step()

    def settle(self) -> None:
        """Take the present local step with what it has: what a lost worker leaves comes as steps of its own."""
        if not self._rule.anchors:
            self._step()

    def _subtract_gradient_before(self, rule: Bvr, weight: float) -> None:
        """Subtract what the same samples' gradient was at the parameters before the last local step."""
        if self.again is None:
            raise UnsuitableError(
                "strategy.localSGD.rule BVR needs the loss at two places of every step: write"
                " session.step(lambda x, y: loss(model(x), y), x, y), so that it can be computed twice"
            )
        now = self._copies()
        self._set(rule.before)
        super().backward(self.again, 0, -weight, None)
        self._set(now)

    def weigh(self, weight: float) -> float:
        """Put how far this worker has come, times its weight, into the sums; return that weight."""
        if self._rule.anchors:
            return weight
        self.buckets.clear()
        self._weighed = True
        own = self._own_weight()
        if own:
            with torch.no_grad():
                for bucket, place, index in self._places():
                    if index in self._seen:
                        bucket.add(place, self._merged[index] - self.buckets.parameters[index], own)
        return own

    def _own_weight(self) -> float:
        whole = self._way_weight if self._options.by_shares else float(self.local_steps)
        return whole**self._options.exponent if self.local_steps and whole > 0 else 0.0

    def contributions(self, opened: Open) -> list[Tensor]:
        """Return running statistics, what the rule merges, and at the end of a pass how hard samples are."""
        weight = self._own_weight()
        own = [] if self._rule.anchors else [(each * weight).to("cpu") for each in self._rule.own()]
        seen = self.bias.contributions() if self.bias is not None and opened.end >= opened.size else []
        return [*super().contributions(opened), *own, *seen]

    def update(self, reduction: Reduction, whole: Whole, contributions: list[Tensor]) -> bool:
        """Go back to the last merge, and from there where all workers together have come to."""
        if not self._rule.anchors:  # a round without local steps is between two that have some
            self.last_local_steps = self.local_steps
        count = len(self._rule.own())
        self._go_back()
        finite = super().update(reduction, whole, contributions)
        if finite and not self.managed.scheduler_per_epoch:
            for _ in range(self.timed_steps - 1):
                self.managed.schedule()
        beyond = contributions[1 if self._statistics.exist else 0 :]
        if finite and count and whole.weight > 0:
            self._rule.merge([each / whole.weight for each in beyond[:count]])
        if self.bias is not None and len(beyond) > count:
            self.bias.merge(*beyond[count:])
            self.figures = self.bias.figures
        self._rule.keep() if finite else self._rule.restore()
        self._begin()
        return finite

    def forget(self) -> None:
        """Go back to the last merge."""
        self._rule.restore()
        self._go_back()
        super().forget()

    def refresh(self) -> None:
        """Follow the script if it has frozen or unfrozen parameters."""
        before = self.buckets
        super().refresh()
        if self.buckets is not before:
            self._merged = self._copies()
            self._begin()

    def to_tree(self) -> dict[str, Any]:
        """Return the state after the last merge. Momentum is each worker's own: it is this one's, as it is now."""
        now = self._copies() if self.local_steps else None
        if now is not None:
            self._set(self._merged)
        tree = super().to_tree()
        if now is not None:
            # Copies, because they are read when this worker is on its own way again.
            tree["models"] = {
                name: {key: each.clone() for key, each in states.items()} for name, states in tree["models"].items()
            }
            self._set(now)
        scores = {} if self.bias is None else self.bias.to_tree()
        return tree | {"outer": self._outer.state_dict(), "rule": self._rule.to_tree(), "bias": scores}

    def load(self, tree: dict[str, Any]) -> None:
        """Become that state."""
        super().load(tree)
        # What another strategy has saved, before Auto chose this one, has no such states.
        if "outer" in tree:
            self._outer.load_state_dict(tree["outer"])
            self._rule.load(tree["rule"])
        if self.bias is not None and tree.get("bias"):
            self.bias.load(tree["bias"])
        self._merged = self._copies()
        self._rule.keep()
        self._begin()

    def _apply(self, *, finite: bool, counts: bool) -> None:
        """Take the mean of all ways as a gradient; or keep the mean gradient, if it is what local steps begin with."""
        if finite and isinstance(self._rule, Bvr):
            if self._rule.anchors:
                self._rule.anchor = [
                    torch.zeros_like(each) if each.grad is None else each.grad.detach().clone()
                    for each in self.buckets.parameters
                ]
                return
            self._rule.anchor = None
        if finite:
            self._outer.step()
            self._merged = self._copies()

    def _step(self) -> None:
        """Take a local step with what was collected for it, if anything was."""
        if not self._samples:
            return
        for bucket in self.buckets.buckets:
            bucket.give(bucket.sums, self._weight or 1.0, bucket.touched)
            self._seen.update(index for index, seen in zip(bucket.indices, bucket.touched, strict=True) if seen)
        self._rule.step()
        self.buckets.clear()
        self._samples, self._weight, self._sizes = 0, 0.0, self._sizes[1:]
        self.local_steps += 1

    def _go_back(self) -> None:
        self._set(self._merged)
        self._begin()

    def _begin(self) -> None:
        """Be at the last merge."""
        self._samples, self._weight, self._weighed, self.local_steps = 0, 0.0, False, 0
        self._way_weight, self._sizes = 0.0, self._round
        self._seen = set()
        self._rule.begin(self.buckets.parameters)

    def _copies(self) -> list[Tensor]:
        return [parameter.detach().clone() for parameter in self.buckets.parameters]

    @torch.no_grad()
    def _set(self, values: list[Tensor]) -> None:
        for parameter, value in zip(self.buckets.parameters, values, strict=True):
            parameter.copy_(value)

    def _places(self) -> Iterator[tuple[Bucket, int, int]]:
        for bucket in self.buckets.buckets:
            for place, index in enumerate(bucket.indices):
                yield bucket, place, index


def _outer_optimizer(managed: Managed, options: LocalSGD) -> torch.optim.SGD:
    """Return the optimizer that takes the merged ways as gradients; without momentum, and at rate 1, it averages."""
    momentum = 0.0 if options.outer is Outer.NONE else options.outer_momentum_percent / 100
    return torch.optim.SGD(
        [parameter for _, parameter in managed.named_parameters()],
        lr=options.outer_rate,
        momentum=momentum,
        nesterov=options.outer is Outer.NESTEROV and momentum > 0,
    )
