"""What one worker holds: the state after the last commit, and what it has computed since. Used by `rounds`, `entry`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from omnilearn_core.api.strategy import Choice, Strategy

from .element import Kind
from .evaluation import Evaluation
from .ledger import Intervals
from .progress import Progress
from .reduction import Reduction
from .rollcall import Record
from .strategies import Learner, successor_of
from .work import Open

log = logging.getLogger("omnilearn")


class Holding:
    """The state that others are healed with, and the round that is open."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self.progress = Progress()
        self.open: Open | None = None
        self.evaluation: Evaluation | None = None
        self.resume: Callable[[int], dict[str, Any] | None] = lambda _: None
        """Given the round that this worker holds, the state of a newer checkpoint, if there is one."""

        self._reduction: Reduction | None = None
        self._strategy = Strategy()
        """What Auto has chosen, or Synchronous: other strategies never change."""

    def follow(self, choice: Choice | None) -> None:
        """Go on by the strategy that was chosen, from the last committed round; model and optimizers stay."""
        if choice is None or choice.strategy == self._strategy:
            return
        if self.open is not None and self.open.kind is Kind.STEP:
            # Gradients at the model of the last step are not what the other one would sum: they are computed anew.
            self._forget_held()
            self.open = None
        self._strategy = choice.strategy
        self.learner = successor_of(self.learner, self._strategy)
        log.info("from round %d on, as %s: %s", self.progress.round + 1, choice.type, choice.why)

    def record(self, *, fresh: bool, starting: bool) -> Record:
        """Return what this worker says in a roll call; when a job starts, after a look for a checkpoint."""
        values = self._start_anew() if starting else ""
        managed, opened = self.learner.managed, self.open
        record = Record(self.progress.round, managed.fingerprint(), values, fresh)
        if opened is not None:
            record = replace(record, kind=int(opened.kind), held=opened.held)
            if not record.fits() or (opened.kind is Kind.STEP and not self.learner.keeps_parts):
                self._forget_held()
                record = replace(record, held=Intervals.of())
        # After that, because it may have gone back.
        return replace(record, course=self.learner.course_hash())

    def _start_anew(self) -> str:
        self._forget_held()  # it was begun with others, who are gone
        if (resumed := self.resume(self.progress.round)) is not None:
            self.load(resumed)
        return self.learner.managed.parameter_hash()

    def to_tree(self) -> dict[str, Any]:
        """Return the state after the last committed round."""
        return {"progress": self.progress.to_tree(), "managed": self.learner.to_tree()}

    def newest_tree(self) -> dict[str, Any]:
        """Return the newest state that this worker can give, to be saved."""
        return self.to_tree()

    @property
    def seen(self) -> Progress:
        """How far the job is, as far as this worker knows."""
        return self.progress

    def load(self, tree: dict[str, Any]) -> None:
        """Become that state; what was held belongs to another."""
        self._forget_held()
        self.learner.load(tree["managed"])
        self.progress = Progress.from_tree(tree["progress"])

    @property
    def aligns(self) -> bool:
        """True if those who need no state take over what they do not have in common, whenever somebody is healed."""
        return not self.learner.alike

    def align(self, tree: dict[str, Any]) -> None:
        """Take over what another one of the same round has and this one may have otherwise."""
        self.learner.align(tree["managed"])

    def _forget_held(self) -> None:
        self.learner.forget()
        self._reduction = None
        if self.open is not None:
            self.open.forget()
        if self.evaluation is not None:
            self.evaluation.clear()

    def _need_open(self) -> Open:
        if self.open is None:
            raise RuntimeError("there is no batch to step: call session.step once for each batch of session.batches")
        return self.open
