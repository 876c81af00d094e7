"""Runs an evaluation: together with the other members, or alone before this worker has joined. Used by `session`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .element import Kind
from .evaluation import Evaluation
from .ledger import Intervals
from .loading import Loader
from .rounds import Rounds
from .work import pieces


@dataclass(frozen=True, slots=True)
class Evaluator:
    """A dataset of ``size`` samples, and the user's function that gives sums for a batch of it."""

    loader: Loader
    size: int
    batch: int
    function: Callable[..., Any]

    def together(self, rounds: Rounds) -> dict[str, Any]:
        """Return the sums, of which every member computes a part: a round without an update."""
        if rounds.open is not None:
            raise RuntimeError(
                "session.evaluate was called in the middle of a step: a worker's batches are parts of one step, so "
                "evaluate after the loop over session.batches, which steps=… can end early"
            )
        first = rounds.membership.entered is None
        rounds.be_member()
        if first and rounds.group is not None and rounds.group.is_fresh:
            # Taken in where the others train: they will not evaluate now.
            return dict(rounds.progress.result) or self.alone()
        evaluation = rounds.evaluation = Evaluation()
        opened = rounds.begin(Kind.EVALUATION, rounds.progress.epoch, Intervals.of((0, self.size)))
        while rounds.open is opened:
            while opened.pending:
                piece = pieces(opened.pending, self.batch)[0]
                evaluation.add(self._call([i for low, high in piece for i in range(low, high)]))
                opened.hold(piece)
            rounds.complete()
        return dict(rounds.progress.result)

    def alone(self) -> dict[str, Any]:
        """Return the sums of the whole dataset, computed here: a worker that joins late must not make others wait."""
        evaluation = Evaluation()
        for begin in range(0, self.size, self.batch):
            evaluation.add(self._call(list(range(begin, min(begin + self.batch, self.size)))))
        return evaluation.own()

    def _call(self, indices: list[int]) -> Any:
        batch = self.loader.take(indices)
        return self.function(*batch) if isinstance(batch, (tuple, list)) else self.function(batch)
