"""The control element: in the last reduction of every round, by which all members decide the same.

A vector of float64 that is summed over the members. Whatever only one member knows stands in a slot of its own, where
all others put 0, so that a sum is also a way to gather. It can ride in the last bucket of gradients, whose numbers may
have fewer digits (`thin`). Pure: tensors in, numbers out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import torch
from torch import Tensor

from omnilearn_core.api.messages import Plan


class Kind(IntEnum):
    """What a round does."""

    STEP = 1
    EVALUATION = 2
    EMPTY = 3


@dataclass(frozen=True, slots=True)
class Part:
    """What this worker says in a round."""

    kind: Kind
    round: int
    weight: float = 0.0
    loss: float = 0.0
    """Sum of weight × loss."""

    samples: int = 0
    checksum: int = 0
    ready: float = 0.0
    """Tag of the planned generation that this worker is ready for."""

    exposed: float = 0.0
    """Seconds of the last round between the end of its own work and the end of the reduction."""

    plan: Plan | None = None
    """Rank 0's newest plan."""

    touched: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.float64))


class OutOfStepError(RuntimeError):
    """The workers are at different places of the script."""


@dataclass(frozen=True, slots=True)
class Whole:
    """What all members together have said; the same on each of them."""

    agreed: bool
    """All of them are in the same round of the same kind."""

    weight: float
    loss: float
    samples: int
    checksum: int
    ready: float
    """The generation that all are ready for, or 0."""

    least_exposed: float
    version: int
    shares: tuple[int, ...]
    touched: tuple[bool, ...]

    def check(self) -> None:
        """Raise OutOfStepError, on all workers alike, if they are not in the same round."""
        if not self.agreed:
            raise OutOfStepError(
                "the workers are at different places of the script: all must call step, evaluate and epochs alike"
            )


_HEAD = 7


def to_vector(part: Part, rank: int, names: Sequence[str]) -> Tensor:
    """Return what rank ``rank`` contributes."""
    count = len(names)
    vector = torch.zeros(_HEAD + 3 * count + len(part.touched), dtype=torch.float64)
    version = part.plan.version if part.plan is not None and rank == 0 else 0
    head = (part.kind, part.round, part.weight, part.loss, part.samples, part.checksum, version)
    vector[:_HEAD] = torch.tensor(head, dtype=torch.float64)
    vector[_HEAD + rank] = part.ready
    vector[_HEAD + count + rank] = part.exposed
    if part.plan is not None and rank == 0:
        shares = part.plan.in_order(names)
        vector[_HEAD + 2 * count : _HEAD + 3 * count] = torch.tensor(shares, dtype=torch.float64)
    vector[_HEAD + 3 * count :] = part.touched
    return vector


def from_vector(vector: Tensor, part: Part, count: int) -> Whole:
    """Return what the sum over ``count`` members says to a worker that has contributed ``part``."""
    kinds, rounds, weight, loss, samples, checksum, version = vector[:_HEAD].tolist()
    ready, exposed, shares = (
        vector[_HEAD + i * count : _HEAD + (i + 1) * count].tolist() for i in range(3)
    )  # fmt: skip
    return Whole(
        agreed=kinds == part.kind * count and rounds == part.round * count,
        weight=weight,
        loss=loss,
        samples=int(samples),
        checksum=int(checksum),
        ready=ready[0] if all(each == ready[0] for each in ready) else 0.0,
        least_exposed=min(exposed),
        version=int(version),
        shares=tuple(int(share) for share in shares),
        touched=tuple(each > 0 for each in vector[_HEAD + 3 * count :].tolist()),
    )


_DIGIT, _DIGITS = 2.0**12, 5
_LARGEST = 2.0**60 - 2.0**7
"""The largest float64 that has so many digits."""

MOST_RIDERS = 4096
"""Members whose digits can be summed exactly in float32, which has 24 bits."""


def thin(vector: Tensor, plain: int) -> Tensor:
    """Return a vector as float32, so that sums of whole numbers stay exact; the last ``plain`` are small anyway.

    A number becomes its fraction and its digits to the base 4096, each with its sign: all of that adds up by itself.
    """
    numbers, rest = vector[: len(vector) - plain], vector[len(vector) - plain :]
    size = numbers.abs().clamp(max=_LARGEST)
    whole = size.floor()
    columns = [size - whole]
    for _ in range(_DIGITS):
        columns.append(whole.remainder(_DIGIT))
        whole = (whole / _DIGIT).floor()
    return torch.cat([(torch.stack(columns) * numbers.sign()).flatten(), rest]).to(torch.float32)


def thick(thinned: Tensor, plain: int) -> Tensor:
    """Return the vector, or the sum of vectors, that was made thin."""
    numbers, rest = thinned[: len(thinned) - plain], thinned[len(thinned) - plain :]
    fraction, *digits = numbers.to(torch.float64).view(_DIGITS + 1, -1)
    total = torch.zeros_like(fraction)
    # One after the other, and not as a product of matrices: all members must come to the same bits.
    for digit in reversed(digits):
        total = total * _DIGIT + digit
    return torch.cat([total + fraction, rest.to(torch.float64)])
