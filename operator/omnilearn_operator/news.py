"""What coordinators have told of jobs and was not written down yet: everything, but of plans only the newest."""

from __future__ import annotations

from omnilearn_core.api.names import Reason

from .notes import Note
from .registry import Key


class News:
    """The news of all jobs."""

    def __init__(self) -> None:
        self._waiting: dict[Key, list[Note]] = {}
        self._plans: dict[Key, Note] = {}
        self._planned: dict[Key, float] = {}

    def add(self, key: Key, note: Note) -> None:
        """Take in a piece of news."""
        if note.reason == Reason.BATCH_REBALANCED:
            self._plans[key] = note
        else:
            self._waiting.setdefault(key, []).append(note)

    def take(self, key: Key, now: float, plan_seconds: float) -> list[Note]:
        """Return what should be written down now; of plans one in so many seconds, because shares move all the time."""
        found = self._waiting.pop(key, [])
        if key in self._plans and now - self._planned.get(key, float("-inf")) >= plan_seconds:
            self._planned[key] = now
            found.append(self._plans.pop(key))
        return found

    def forget(self, key: Key) -> None:
        """Forget a job."""
        for known in (self._waiting, self._plans, self._planned):
            known.pop(key, None)
