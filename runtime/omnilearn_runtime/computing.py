"""One micro-batch: from the loss that a script gives to gradients that are held. Used by `session`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from .feeding import Feeder
from .ledger import Intervals
from .managed import Managed
from .rounds import Rounds

Loss = Tensor | Callable[..., Tensor] | None


def backward(managed: Managed, loss: Tensor) -> None:
    """Run backward, scaled if there is a gradient scaler."""
    whole: Any = loss if managed.scaler is None else managed.scaler.scale(loss)
    whole.backward()


def compute(
    rounds: Rounds, feeder: Feeder, piece: Intervals, loss: Loss, batch: tuple[Any, ...], weight: float | None
) -> None:
    """Take the loss of a piece into account; given as a function of ``batch``, it is computed here."""
    learner, managed = rounds.learner, rounds.learner.managed
    function = None if loss is None or isinstance(loss, Tensor) else loss
    given = loss if function is None else function(*batch)
    value, number = None, 0.0
    if isinstance(given, Tensor):
        learner.saw(feeder.indices, given.detach())
        # A loss for every sample is as good as their mean.
        value = given.mean()
        number = float(value.detach())
    learner.again = None if function is None else lambda: backward(managed, function(*batch).mean())
    run = (lambda: None) if value is None else (lambda: backward(managed, value))
    rounds.backward(run, piece, float(piece.size) if weight is None else float(weight), number)
