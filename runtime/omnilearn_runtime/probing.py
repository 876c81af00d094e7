"""Times exchanges in the first steps of a generation, as long as Auto has not chosen a strategy. Used by `rounds`.

All members do it after the same steps, with nothing else on its way, so that neither computing nor waiting for others
is in the times.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from omnilearn_core.api.messages import GenerationId
from omnilearn_core.api.strategy import StrategyType

from .buckets import Buckets
from .element import Kind, Part
from .group import Group
from .membership import Membership
from .reduction import Reduction
from .timing import Stopwatch
from .waiting import Ending

# The first step of a generation may have begun in another one.
_FIRST, _TIMES = 2, 3


class Exchange(NamedTuple):
    """How long it takes to sum a model: over all members, and over those of this worker's group."""

    seconds: float
    team_seconds: float
    generation: GenerationId


class Prober:
    """Knows when to measure, and the shortest times of the present generation."""

    def __init__(self, membership: Membership, clock: Callable[[], float] = time.perf_counter) -> None:
        self._membership, self._clock = membership, clock
        self._generation: GenerationId | None = None
        self._steps = 0
        self._shortest: Exchange | None = None

    @property
    def measured(self) -> Exchange | None:
        """The shortest times, once all have been taken: one alone may be that of somebody who was late."""
        return self._shortest if self._steps >= _FIRST + _TIMES - 1 else None

    def committed(self, kind: Kind, group: Group, buckets: Buckets, watch: Stopwatch) -> None:
        """Measure after a round, if it is time to, on all members alike."""
        if self._is_due(kind, group):
            self._measure(group, buckets)
            watch.restart()

    def _is_due(self, kind: Kind, group: Group) -> bool:
        welcome = self._membership.welcome
        if kind is not Kind.STEP or welcome is None or welcome.strategy.type is not StrategyType.AUTO:
            return False
        if group.id != self._generation:
            self._generation, self._steps, self._shortest = group.id, 0, None
        self._steps += 1
        wanted = group.assignment.choice is None and group.size > 1
        return wanted and _FIRST <= self._steps < _FIRST + _TIMES

    def _measure(self, group: Group, buckets: Buckets) -> None:
        """Exchange nothing of value, twice; if the generation has to be left meanwhile, nothing was measured."""
        seconds = self._time(group, buckets)
        if seconds is None:
            return
        apart = group.team is not None and group.team is not group
        inside = self._time(group.team, buckets) if group.team is not None and apart else seconds
        if inside is None:
            return
        before = self._shortest or Exchange(seconds, inside, group.id)
        # The shortest is the network's; what is more was somebody's who was late.
        self._shortest = Exchange(min(before.seconds, seconds), min(before.team_seconds, inside), group.id)

    def _time(self, group: Group, buckets: Buckets) -> float | None:
        """Return how long a sum of all buckets takes, once everybody is there."""
        if not self._sum(group, None):
            return None
        begun = self._clock()
        return self._clock() - begun if self._sum(group, buckets) else None

    def _sum(self, group: Group, buckets: Buckets | None) -> bool:
        reduction = Reduction(group, self._membership, buckets)
        reduction.close(Part(Kind.EMPTY, 0))
        ending, _ = reduction.finish()
        if ending is not Ending.COMPLETE:
            return False
        reduction.recycle()
        return True
