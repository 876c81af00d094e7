"""Where a script is: which pass over the data, in which epoch of its own loop. Used by `session`.

A worker that joins, or goes on from a checkpoint, begins in the epoch that the others are in; what they have done
between epochs is in the state that it was given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .feeding import BehindError
from .rounds import Rounds


class Passes:
    """Counts passes and epochs, on every worker alike."""

    def __init__(self) -> None:
        self.number = -1
        """The pass that the script is in, or was in last."""

        self.planned: int | None = None
        """Epochs of the loop that runs, if one does."""

        self._loop: int | None = None
        self._looped = 0
        self._epoch = 0

    def left(self, total: int, left: int) -> int | None:
        """Return how many passes are left with the present one, of which ``left`` of ``total`` are of one call.

        None if the script has not said so: it may loop by itself.
        """
        if self.planned is not None:
            return (self.planned - self._epoch - 1) * total + left
        return left if total > 1 else None

    def epochs(self, rounds: Rounds, count: int) -> Iterator[int]:
        """Yield the epochs of a loop that are left."""
        first = self._looped
        self.planned, self._looped = count, first + count
        for epoch in range(max(0, rounds.progress.loop - first), count):
            self._loop, self._epoch = first + epoch, epoch
            if rounds.progress.loop == self._loop:
                self.number = rounds.progress.before
            rounds.progress = replace(rounds.progress, loop=self._loop, before=self.number)
            yield epoch
            if rounds.learner.managed.scheduler_per_epoch:
                rounds.learner.managed.schedule()
        self.planned = self._loop = None

    def check(self, rounds: Rounds) -> None:
        """Raise BehindError if the others have gone on to another epoch."""
        if self._loop not in (None, rounds.progress.loop):
            raise BehindError(f"the others are in another epoch than this worker, which was at {self._loop}")
