"""The generations that a worker has heard of and built, and questions about them. Used by `membership`."""

from __future__ import annotations

from omnilearn_core.api.messages import Assignment, Change, GenerationId

from .group import Group, tag
from .waiting import Board


class Generations(Board):
    """The newest generation, and the groups that stand; shared between threads under one condition."""

    def __init__(self, worker: str) -> None:
        super().__init__()
        self._worker = worker
        self._built: dict[GenerationId, Group] = {}
        self._spoiled: GenerationId | None = None
        self.newest: Assignment | None = None
        """The generation that was assigned last."""

    def ready_tag(self, group: Group) -> float:
        """Return the tag of the planned generation that this worker is ready for, or 0."""
        newest = self.newest
        if newest is None or newest.change is not Change.PLANNED or newest.generation.number <= group.id.number:
            return 0.0
        ready = newest.generation in self._built or not self.is_in(newest)
        return tag(newest.generation) if ready else 0.0

    def is_in(self, assignment: Assignment | None = None) -> bool:
        """Tell whether this worker is a member of the newest generation, or of the given one."""
        asked = assignment or self.newest
        return asked is not None and any(member.worker == self._worker for member in asked.members)

    def is_superseded(self, group: Group, *, any_newer: bool = False) -> bool:
        """Tell whether the generation has to be left at once, or for any newer one."""
        if self._spoiled == group.id:
            return True
        newest = self.newest
        if newest is None or newest.generation.number <= group.id.number:
            return False
        # Whoever is only a joiner there has been given up by the others here.
        given_up = any(each.fresh and each.worker == self._worker for each in newest.members)
        return any_newer or given_up or newest.change is not Change.PLANNED

    def ready(self, after: Group | None) -> Group | None:
        """Return the built group of the newest generation, if that is newer than ``after``."""
        newest = self.newest
        if newest is None or (after is not None and newest.generation.number <= after.id.number):
            return None
        return self._built.get(newest.generation)

    def has_built(self, assignment: Assignment) -> bool:
        """Tell whether the group of a generation stands here."""
        return assignment.generation in self._built
