"""When checkpoints are taken, and where a job goes on from. Uses `checkpoint` to write and read them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from . import codec
from .checkpoint import Checkpoints, Writer
from .environment import Environment
from .faults import Faults, Point

log = logging.getLogger("omnilearn")

_FINISH_SECONDS = 60.0


class Saving:
    """The checkpoints of one worker; does nothing if the job has none."""

    def __init__(self, environment: Environment, faults: Faults) -> None:
        self._every, self._faults = environment.checkpoint_seconds, faults
        folder = environment.checkpoint_dir
        self._files = None if folder is None else Checkpoints(folder, max(1, environment.checkpoint_keep))
        self._writer = None if self._files is None else Writer(self._files)
        self._last = time.monotonic()

    @property
    def last_generation(self) -> int:
        """The highest generation number among the checkpoints."""
        return 0 if self._files is None else self._files.last_generation()

    def newer_than(self, round_: int) -> dict[str, Any] | None:
        """Return the state of the newest checkpoint, if it is of a later round."""
        loaded = None if self._files is None else self._files.newest()
        if loaded is None or loaded.round <= round_:
            return None
        log.info("going on from the checkpoint of round %d", loaded.round)
        tree: dict[str, Any] = codec.unpack(loaded.packed)
        return tree

    def committed(self, generation: int, round_: int, *, lead: bool, read: Callable[[], dict[str, Any]]) -> None:
        """After a commit: what was taken before is now held by all; take another if it is time."""
        if self._writer is None:
            return
        self._writer.confirm(round_ - 1)
        if lead and time.monotonic() - self._last >= self._every and not self._writer.busy:
            self._last = time.monotonic()
            self._writer.begin(generation, round_, codec.pack(read()).clone())
            self._faults.pass_by(Point.CHECKPOINT, round_)

    def last(self, generation: int, round_: int, read: Callable[[], dict[str, Any]]) -> None:
        """Save the state at the end, when all members have it or nobody goes on."""
        if self._files is None or self._writer is None:
            return
        self._writer.finish(_FINISH_SECONDS)
        try:
            self._files.save(generation, round_, codec.pack(read()))
        except OSError as error:
            log.error("the last checkpoint could not be written: %s", error.strerror)  # noqa: TRY400 - a sentence is enough

    def close(self) -> None:
        """Wait for what is being written."""
        if self._writer is not None:
            self._writer.finish(_FINISH_SECONDS)
