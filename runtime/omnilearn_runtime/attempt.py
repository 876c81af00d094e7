"""One attempt to reduce a round: what was sent, and what this worker said with it. Used by `rounds`."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .element import Kind, Part
from .group import Group
from .ledger import checksum
from .reduction import Reduction
from .strategies import Learner
from .work import Open


@dataclass(frozen=True, slots=True)
class Attempt:
    """A round whose reduction has begun."""

    opened: Open
    group: Group
    reduction: Reduction
    contributions: list[Tensor]


def part_of(opened: Open, round_: int, weight: float, learner: Learner) -> Part:
    """Return what this worker says of its work in the control element of a round."""
    loss = opened.mean_loss * weight
    return Part(
        kind=opened.kind,
        round=round_,
        weight=weight,
        loss=loss if math.isfinite(loss) else 0.0,
        samples=opened.held.size,
        checksum=checksum(opened.held),
        touched=learner.buckets.touched() if opened.kind is Kind.STEP else torch.zeros(0, dtype=torch.float64),
    )


def step_part(learner: Learner, round_: int) -> Part:
    """Return what this worker says to its team in a step inside a round."""
    return Part(Kind.STEP, round_, weight=learner.step_weight, touched=learner.buckets.touched())
