"""Workers that are lost while their pods seem well: then the watch may have missed something, and should be checked."""

from __future__ import annotations

from collections.abc import Iterable

from omnilearn_coordinator.membership.actions import Happening, Kind

from .observed import Pod
from .registry import Key

# A watch that works has told of a pod's end by then.
_DOUBT_SECONDS = 3.0
_SIGNS = frozenset({Kind.LOST, Kind.LEFT, Kind.FAILED})


class Doubts:
    """The doubts about all jobs."""

    def __init__(self) -> None:
        self._since: dict[Key, dict[str, float]] = {}

    def hear(self, key: Key, happening: Happening, now: float) -> None:
        """Take in what a coordinator tells: whoever has gone may have no pod any more."""
        if happening.kind in _SIGNS and happening.worker is not None:
            self._since.setdefault(key, {})[happening.worker] = now

    def due(self, key: Key, pods: Iterable[Pod], now: float) -> bool:
        """Tell whether the pods of a job should be asked for; whose end is known is in doubt no more."""
        known = self._since.get(key)
        if not known:
            return False
        well = {pod.worker for pod in pods if not pod.over}
        left = {worker: since for worker, since in known.items() if worker in well}
        self._since[key] = left
        return any(now - since >= _DOUBT_SECONDS for since in left.values())

    def forget(self, key: Key) -> None:
        """Forget a job's doubts."""
        self._since.pop(key, None)
