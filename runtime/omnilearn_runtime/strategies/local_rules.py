"""What a local step does: the script's optimizer, or an algorithm that brings a state of its own. Used by `local`.

FedLALR: arXiv 2309.09719. BVR-L-SGD: arXiv 2102.03198, with the models averaged instead of one of them picked.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from omnilearn_core.api.strategy import LocalRule
from omnilearn_runtime.managed import Managed, UnsuitableError

_BETAS = (0.9, 0.995)
_EPSILON = 1e-8


class Rule:
    """The script's optimizer: its state is each worker's own, and never merged."""

    anchors = False
    """The next round computes one gradient over all its samples, which the local steps after it begin with."""

    def __init__(self, managed: Managed) -> None:
        self._managed = managed
        self._kept: dict[str, Any] = {}

    def begin(self, parameters: Sequence[Tensor]) -> None:
        """Be at the last merge, whatever was done since."""

    def keep(self) -> None:
        """Keep the optimizers' state: there has been a merge."""
        self._kept = {name: copy.deepcopy(each.state_dict()["state"]) for name, each in self._optimizers()}

    def restore(self) -> None:
        """Let the optimizers have the state of the last merge: steps since then are void, and may have spoilt it."""
        for name, optimizer in self._optimizers():
            # Rates stay: a script may have changed them, and a scaler learns from what was not finite.
            groups = optimizer.state_dict()["param_groups"]
            optimizer.load_state_dict({"state": copy.deepcopy(self._kept.get(name, {})), "param_groups": groups})

    def _optimizers(self) -> Iterable[tuple[str, Optimizer]]:
        return self._managed.optimizers.items()

    def step(self) -> None:
        """Take a local step with the gradients that the parameters hold."""
        self._managed.update()

    def own(self) -> list[Tensor]:
        """Return what is merged beside the parameters."""
        return []

    def merge(self, means: Sequence[Tensor]) -> None:
        """Take the means of what all workers brought."""

    def to_tree(self) -> dict[str, Any]:
        """Return the state after the last merge."""
        return {}

    def load(self, tree: dict[str, Any]) -> None:
        """Become that state."""

    def rates(self) -> dict[Tensor, float]:
        """Return the learning rates of the parameters that have a gradient."""
        return {
            parameter: float(group["lr"])
            for optimizer in self._managed.optimizers.values()
            for group in optimizer.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
        }


class FedLalr(Rule):
    """AMSGrad on every worker, with first moments and rates that are merged as the parameters are."""

    def __init__(self, managed: Managed) -> None:
        super().__init__(managed)
        _refuse_scaler(managed, LocalRule.FEDLALR)
        self._merged: tuple[Tensor, Tensor] | None = None
        self._parameters: list[Tensor] = []

    def begin(self, parameters: Sequence[Tensor]) -> None:
        """Go back to the merged moments."""
        self._parameters = list(parameters)
        size = sum(each.numel() for each in parameters)
        if self._merged is None or self._merged[0].numel() != size:
            first = torch.zeros(size, dtype=_widest(parameters), device=parameters[0].device)
            self._merged = (first, torch.full_like(first, _EPSILON**2))
        self._first, self._highest = (each.clone() for each in self._merged)
        self._second = self._highest.clone()

    def step(self) -> None:
        """Take a step of AMSGrad."""
        self._managed.update(self._apply)

    @torch.no_grad()
    def _apply(self) -> None:
        rates = self.rates()
        at = 0
        for parameter in self._parameters:
            here = slice(at, at := at + parameter.numel())
            if parameter not in rates or parameter.grad is None:
                continue
            gradient = parameter.grad.reshape(-1).to(self._first)
            self._first[here].lerp_(gradient, 1 - _BETAS[0])
            self._second[here].lerp_(gradient.square(), 1 - _BETAS[1])
            torch.maximum(self._highest[here], self._second[here], out=self._highest[here])
            change = self._first[here] / self._highest[here].sqrt()
            parameter.sub_(change.reshape(parameter.shape).to(parameter), alpha=rates[parameter])

    def own(self) -> list[Tensor]:
        """Return this worker's moments."""
        return [self._first, self._highest]

    def merge(self, means: Sequence[Tensor]) -> None:
        """Take the means of all moments."""
        self._merged = (means[0].to(self._first), means[1].to(self._first))

    def to_tree(self) -> dict[str, Any]:
        """Return the merged moments."""
        return {} if self._merged is None else {"first": self._merged[0], "highest": self._merged[1]}

    def load(self, tree: dict[str, Any]) -> None:
        """Become them."""
        self._merged = (tree["first"].clone(), tree["highest"].clone()) if tree else None


class Bvr(Rule):
    """Local steps along one gradient of all, which each of them corrects by what its own samples say has changed."""

    def __init__(self, managed: Managed) -> None:
        super().__init__(managed)
        _refuse_scaler(managed, LocalRule.BVR)
        self.anchor: list[Tensor] | None = None
        self.before: list[Tensor] = []
        """The parameters before the last local step."""

        self._direction: list[Tensor] = []

    @property
    def anchors(self) -> bool:  # type: ignore[override]
        """Every other round."""
        return self.anchor is None

    def begin(self, parameters: Sequence[Tensor]) -> None:
        """Begin a round of local steps along the anchor."""
        self._parameters = list(parameters)
        self.before = [each.detach().clone() for each in parameters]
        self._direction = [each.clone() for each in self.anchor or ()]

    def step(self) -> None:
        """Correct the direction by the difference of two gradients, which the parameters hold, and follow it."""
        self._managed.update(self._apply)

    @torch.no_grad()
    def _apply(self) -> None:
        rates = self.rates()
        self.before = [each.detach().clone() for each in self._parameters]
        for parameter, direction in zip(self._parameters, self._direction, strict=True):
            if parameter.grad is not None:
                direction.add_(parameter.grad)
                parameter.sub_(direction, alpha=rates[parameter])

    def to_tree(self) -> dict[str, Any]:
        """Return the anchor, if there is one."""
        return {} if self.anchor is None else {str(i): each for i, each in enumerate(self.anchor)}

    def load(self, tree: dict[str, Any]) -> None:
        """Become it."""
        self.anchor = [tree[str(i)].clone() for i in range(len(tree))] or None


def rule_of(name: LocalRule, managed: Managed) -> Rule:
    """Return the rule of that name."""
    match name:
        case LocalRule.OPTIMIZER:
            return Rule(managed)
        case LocalRule.FEDLALR:
            return FedLalr(managed)
        case LocalRule.BVR:
            return Bvr(managed)


def _widest(parameters: Sequence[Tensor]) -> torch.dtype:
    return torch.float64 if any(each.dtype == torch.float64 for each in parameters) else torch.float32


def _refuse_scaler(managed: Managed, name: LocalRule) -> None:
    if managed.scaler is not None:
        raise UnsuitableError(
            f"strategy.localSGD.rule {name} does not go with a gradient scaler: train in bfloat16 or float32, or use"
            " rule Optimizer"
        )
