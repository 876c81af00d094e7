"""The batches of one pass over the data: which samples, in which pieces, loaded ahead. Used by `session`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from .element import Kind
from .ledger import Intervals
from .loading import Loader
from .rounds import Rounds
from .timing import Phase
from .work import Open, pieces


class BehindError(RuntimeError):
    """The job has gone back to an earlier epoch than this worker's script is in: the script has to start anew."""


class Feeder:
    """Yields a worker's micro-batches of its share of each step."""

    def __init__(self, rounds: Rounds, loader: Loader, size: int, global_batch: int) -> None:
        self._rounds, self._loader, self.size, self._batch = rounds, loader, size, global_batch
        self.micro: int | None = None
        """The most samples of a micro-batch; None: the whole share at once."""

        self.piece: Intervals | None = None
        """The micro-batch that was yielded and is not stepped yet."""

        self.total, self.left = 1, 1
        """Passes of the present call, and how many of them are left with the present one."""

        self.indices: list[int] = []
        """Which samples of the dataset the last micro-batch holds."""

    def passes(self, epochs: int, steps: int | None) -> Iterator[int]:
        """Yield where each of the passes ends: ``steps`` are all that there may be, over all of them."""
        left = epochs * self.size if steps is None else steps * self._batch
        self.total = epochs if steps is None else min(epochs, -(-steps // max(1, -(-self.size // self._batch))))
        for number in range(epochs):
            self.left = self.total - number
            if end := min(self.size, left):
                yield end
            # The last step of a pass counts as one, however short it is.
            left -= self.size if steps is None else -(-end // self._batch) * self._batch

    def steps(self, epoch: int, order: Tensor, end: int) -> Iterator[Any]:
        """Yield micro-batches until the pass is complete, which it is at ``end``."""
        while True:
            self._rounds.be_member()
            offset = self._offset(epoch)
            if offset is None or offset >= end:
                return
            interval = Intervals.of((offset, self._end_of_round(offset, end)))
            opened = self._rounds.begin(Kind.STEP, epoch, interval, end)
            yield from self._round(opened, order)

    def _end_of_round(self, offset: int, end: int) -> int:
        learner = self._rounds.learner
        until = min(offset + self._batch * learner.steps, end)
        short = (until - offset) % self._batch
        return until - short if learner.short_apart and until - offset > self._batch else until

    def _round(self, opened: Open, order: Tensor) -> Iterator[Any]:
        calm = True
        while self._rounds.open is opened:
            if calm and opened.disturbed:
                calm = False
                self._loader.forget()  # what was loaded ahead is somebody else's now
            if not opened.pending:
                self._rounds.complete()
                continue
            parts = self._parts(opened.pending)
            self._rounds.watch.mark(Phase.COMPUTE)
            self.indices = _at(order, parts[0])
            batch = self._loader.take(self.indices)
            self._rounds.watch.mark(Phase.LOAD)
            self._look_ahead(opened, parts, order)
            self.piece = parts[0]
            yield batch
            if self.piece is not None:
                raise RuntimeError(
                    "the last batch was not stepped: call session.step(loss) once for every batch of session.batches"
                )

    def _look_ahead(self, opened: Open, parts: Sequence[Intervals], order: Tensor) -> None:
        """Have the next micro-batch loaded: of this step, or of the next one, whose shares are known already."""
        if len(parts) > 1:
            self._loader.ahead(_at(order, parts[1]))
            return
        upcoming = self._rounds.division.upcoming(
            Intervals.of((opened.end, min(opened.end + self._batch, opened.size))), self._batch, self._rounds.rank
        )
        if upcoming:
            self._loader.ahead(_at(order, self._parts(upcoming)[0]))

    def _parts(self, pending: Intervals) -> Sequence[Intervals]:
        """Return the next micro-batches of what is to be computed: as much as may be at once, and as fits."""
        now, later = pending.take(self._rounds.learner.at_once(pending.size))
        parts = pieces(now, self.micro or now.size)
        return [*parts, *(self._parts(later)[:1] if later else ())]

    def _offset(self, epoch: int) -> int | None:
        """Return where this pass goes on; None if the others are past it."""
        progress, sent = self._rounds.progress, self._rounds.sent
        if sent is not None and sent.opened.epoch == epoch:
            return sent.opened.end
        if progress.epoch > epoch:
            return None
        if progress.epoch == epoch:
            return progress.offset
        if progress.epoch == epoch - 1 and progress.offset >= progress.size:
            return 0
        raise BehindError(
            f"the job went back to epoch {progress.epoch}, because all its workers were lost; this one was at {epoch}"
        )


def _at(order: Tensor, piece: Intervals) -> list[int]:
    return [int(index) for low, high in piece for index in order[low:high].tolist()]
