"""When each job is to be looked at next. Whatever the number of jobs, the next one is found at once."""

from __future__ import annotations

import heapq

from .registry import Key


class Agenda:
    """Jobs by the time at which they are due; a job that is being looked at waits until that is over."""

    def __init__(self) -> None:
        self._due: dict[Key, float] = {}
        self._heap: list[tuple[float, Key]] = []
        """What is in here and not in the dictionary is out of date."""

        self._busy: set[Key] = set()

    def __len__(self) -> int:
        return len(self._due)

    def want(self, key: Key, due: float) -> bool:
        """Have a job looked at by then; return whether that is sooner than it would have been."""
        if due >= self._due.get(key, float("inf")):
            return False
        self._due[key] = due
        if key not in self._busy:
            heapq.heappush(self._heap, (due, key))
        return True

    def begin(self, now: float) -> list[Key]:
        """Return the jobs that are due, the longest overdue first; they are being looked at from now on."""
        found: list[Key] = []
        while self._heap and self._heap[0][0] <= now:
            due, key = heapq.heappop(self._heap)
            if self._due.get(key) == due and key not in self._busy:
                del self._due[key]
                self._busy.add(key)
                found.append(key)
        return found

    def end(self, key: Key) -> None:
        """Take in that a job is not looked at any more; what it was wanted for meanwhile counts again."""
        self._busy.discard(key)
        if key in self._due:
            heapq.heappush(self._heap, (self._due[key], key))

    def next_due(self) -> float:
        """Return when to begin again; infinity if nothing waits."""
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else float("inf")
