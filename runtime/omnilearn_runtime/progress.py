"""How far a job is: what all members agree on; joiners receive it and checkpoints hold it, beside the model."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Progress:
    """The state after the last committed round."""

    round: int = 0
    step: int = 0
    epoch: int = 0
    """The pass over the data that the last step belongs to."""

    offset: int = 0
    """How much of that pass is committed: the ledger of a synchronous job is this one number."""

    size: int = 0
    """How much there is in that pass."""

    loop: int = -1
    """The epoch of `session.epochs` that the script is in, counted over all its calls; -1 before the first."""

    before: int = -1
    """The last pass before that epoch."""

    samples: int = 0
    lost: int = 0
    doubled: int = 0
    skipped: int = 0
    skipped_in_a_row: int = 0
    result: dict[str, Any] = field(default_factory=dict)
    """What the last evaluation gave, for those who missed it."""

    def after_step(self, at: tuple[int, int, int], samples: int, *, skipped: bool, steps: int = 1) -> Progress:
        """Return the progress after one more round of steps, which ended ``at`` (epoch, offset, size of the pass)."""
        epoch, offset, size = at
        return replace(
            self,
            round=self.round + 1,
            step=self.step + steps,
            epoch=epoch,
            offset=offset,
            size=size,
            samples=self.samples + samples,
            skipped=self.skipped + skipped,
            skipped_in_a_row=self.skipped_in_a_row + 1 if skipped else 0,
        )

    def after_round(self, result: dict[str, Any] | None = None) -> Progress:
        """Return the progress after an evaluation or an empty round."""
        return replace(self, round=self.round + 1, result=self.result if result is None else result)

    def is_past(self, pass_: int) -> bool:
        """Tell whether a pass after ``pass_`` has begun."""
        return self.step > 0 and self.epoch > pass_

    def audited(self, wanted: tuple[int, int], got: tuple[int, int]) -> Progress:
        """Return the progress with what the audit of a round found: (samples, checksum) wanted and got."""
        if wanted == got:
            return self
        missing = wanted[0] - got[0]
        # As many samples but others: at least one is missing and one is there twice.
        lost, doubled = (1, 1) if missing == 0 else (max(missing, 0), max(-missing, 0))
        return replace(self, lost=self.lost + lost, doubled=self.doubled + doubled)

    def to_tree(self) -> dict[str, Any]:
        """Return the progress as plain values."""
        return asdict(self)

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> Progress:
        """Return the progress that ``to_tree`` gave."""
        return cls(**tree)
