"""Waiting with a limit: one condition on which the training thread waits for whatever may happen."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from enum import Enum, auto

from omnilearn_core.api.messages import Release
from omnilearn_core.api.names import START_ANEW_EXIT

log = logging.getLogger("omnilearn")


class Ending(Enum):
    """How a wait for operations ended."""

    COMPLETE = auto()
    FAILED = auto()
    SUPERSEDED = auto()


class ReleasedError(Exception):
    """The coordinator lets this worker go."""

    def __init__(self, release: Release) -> None:
        super().__init__(release.why)
        self.release = release


class AbandonedError(SystemExit):
    """The coordinator has not been heard of for so long that waiting makes no sense any more.

    Nobody's failure: the worker exits, so that whoever minds it starts it anew.
    """

    def __init__(self, sentence: str) -> None:
        log.error("%s", sentence)
        super().__init__(START_ANEW_EXIT)


# Also without news: a signal may have changed something, and a signal handler must not take locks.
_LOOK_SECONDS = 0.25


class Board:
    """What several threads change and one waits for; ``stop`` is raised in whoever waits."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.stop: Exception | None = None

    def wake(self) -> None:
        """Wake whoever waits: something has changed."""
        with self.changed:
            self.changed.notify_all()

    def wait(self, true: Callable[[], bool], seconds: float) -> bool:
        """Wait until ``true()``; False if it is not within ``seconds``."""
        limit = time.monotonic() + seconds
        with self.changed:
            while not true():
                if self.stop is not None:
                    raise self.stop
                left = limit - time.monotonic()
                if left <= 0:
                    return False
                self.changed.wait(min(left, _LOOK_SECONDS))
        return True
