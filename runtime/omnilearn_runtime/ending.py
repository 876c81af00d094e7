"""How a worker ends: it finishes and waits for the others, is told to leave, fails, or is let go. Used by `session`."""

from __future__ import annotations

import logging
import math
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import torch

from omnilearn_core.api.frames import to_frame
from omnilearn_core.api.messages import Done, Failed, Leave, Release
from omnilearn_core.api.names import START_ANEW_EXIT

from .element import Kind, OutOfStepError
from .environment import Environment
from .faults import Faults, Point
from .feeding import BehindError
from .group import Group
from .ledger import Intervals
from .managed import UnsuitableError
from .membership import Membership
from .rollcall import UnlikeError
from .rounds import Rounds
from .saving import Saving
from .strategies import DivergedError
from .waiting import AbandonedError, ReleasedError

log = logging.getLogger("omnilearn")

LEFT = 128 + signal.SIGTERM
"""Exit code of a worker that was told to go, and went."""

_LONGEST_TRACEBACK = 3500
_RESERVE_SECONDS = 5.0
_HOPELESS = (UnlikeError, UnsuitableError, OutOfStepError, DivergedError)


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether memory has run out, on any device."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


class Exits:
    """Turns every way to end into an exit code and a message to the coordinator."""

    def __init__(self, environment: Environment, membership: Membership, saving: Saving, faults: Faults) -> None:
        self._environment, self._membership, self._saving, self._faults = environment, membership, saving, faults
        self._leaving = False
        self._watchdog: threading.Timer | None = None
        self._before: Any = None
        self._rounds: Rounds | None = None

    def save_on_exit(self, rounds: Rounds) -> None:
        """Remember what to save if this worker leads and has to leave."""
        self._rounds = rounds

    # SIGTERM

    def listen(self) -> None:
        """Take SIGTERM as the wish that this worker leaves; only the main thread can."""
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._told_to_go)

    def close(self) -> None:
        """Give SIGTERM back."""
        if self._watchdog is not None:
            self._watchdog.cancel()
        if self._before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._before)

    def _told_to_go(self, _number: int, _frame: FrameType | None) -> None:
        if not self._leaving:
            self._leaving = True
            grace = self._environment.grace_seconds
            # What comes after the last step (a checkpoint, goodbyes) takes time, too.
            self._membership.deadline = time.monotonic() + grace - min(_RESERVE_SECONDS, grace / 3)
            self._membership.send(Leave(why="SIGTERM"))
            self._watchdog = threading.Timer(grace, os._exit, (LEFT,))
            self._watchdog.daemon = True
            self._watchdog.start()

    # Leaving from within the training loop

    @contextmanager
    def exiting(self) -> Iterator[None]:
        """Exit from here if the coordinator lets this worker go."""
        try:
            yield
        except ReleasedError as error:
            self._exit(error.release)
        except BehindError as error:
            log.warning("%s: starting anew", error)
            raise SystemExit(START_ANEW_EXIT) from None

    def guard(self, batches: Generator[Any, None, None]) -> Iterator[Any]:
        """Yield batches; exit if this worker is let go meanwhile."""
        while True:
            with self.exiting():
                try:
                    batch = next(batches)
                except StopIteration:
                    return
            try:
                yield batch
            except GeneratorExit:
                batches.close()
                raise

    def _exit(self, release: Release) -> None:
        if release.failed:
            sys.stderr.write(f"the job has failed: {release.why}\n")
            raise SystemExit(1) from None
        if self._rounds is not None:
            self._faults.pass_by(Point.LEAVING, self._rounds.progress.round)
            self._save(self._rounds)
        log.info("leaving: %s", release.why)
        raise SystemExit(LEFT if self._leaving else 0) from None

    # The end of the script

    def finish(self, rounds: Rounds) -> None:
        """Make sure that all have the last step, say so, and stay until released, in case somebody needs the model."""
        with self.exiting():
            if self._membership.entered is None:
                return
            rounds.be_member()
            rounds.begin(Kind.EMPTY, rounds.progress.epoch, Intervals.of())
            rounds.complete()
            self._faults.pass_by(Point.FINISHING, rounds.progress.round)
            self._save(rounds)
            self._wait_for_release(rounds)

    def _wait_for_release(self, rounds: Rounds) -> None:
        membership = self._membership
        if self._environment.alone:
            return
        while True:
            group = rounds.group
            done = self._say_done(rounds)
            self._await_news(group)
            if membership.released is not None and not membership.released.failed:
                self._leave_word(done)
                return
            membership.check()
            # The end may come while this worker stands by others: it is at the end of its script all the same.
            with suppress(ReleasedError):
                rounds.regroup(group)

    def _await_news(self, group: Group | None) -> None:
        """Wait until released, or needed; however long the others take, unless the coordinator is gone for good.

        An operator comes back, or the cluster ends this pod: to exit would be to train anew what is done.
        """
        known = self._membership

        def abandoned() -> bool:
            return known.orphaned and not self._environment.in_cluster

        def news() -> bool:
            return known.lets_go() or abandoned() or (group is not None and known.is_superseded(group))

        known.wait(news, math.inf)
        if abandoned() and not known.lets_go():
            raise AbandonedError("the script is at its end, but the coordinator that should release it is gone")

    def _say_done(self, rounds: Rounds) -> Done | None:
        entered, progress = self._membership.entered, rounds.progress
        if entered is None:
            return None
        done = Done(
            generation=entered.generation,
            round=progress.round,
            steps=progress.step,
            samples=progress.samples,
            lost=progress.lost,
            doubled=progress.doubled,
            skipped=progress.skipped,
            parameter_hash=rounds.learner.managed.parameter_hash(),
        )
        self._membership.send(done)
        return done

    def _leave_word(self, done: Done | None) -> None:
        """Leave in the pod's status that the job is complete: it outlives this worker and the coordinator."""
        file = self._environment.termination_file
        if file is None or done is None:
            return
        try:
            file.write_text(to_frame(done), encoding="utf-8")
        except OSError as error:
            log.warning("the end of the job could not be written to %s: %s", file, error.strerror)
            return
        _take_back_on_error(file)

    def _save(self, rounds: Rounds) -> None:
        group = rounds.group
        if group is not None and group.rank == 0:
            self._saving.last(group.id.number, rounds.seen.round, rounds.newest_tree)

    def fail(self, error: BaseException) -> None:
        """Tell why the script ended early; a worker that leaves or is let go has nothing to tell."""
        if isinstance(error, (SystemExit, KeyboardInterrupt, GeneratorExit)):
            return
        lines = "".join(traceback.format_exception(error)).strip()
        self._membership.send(
            Failed(error=lines[-_LONGEST_TRACEBACK:], everywhere=isinstance(error, _HOPELESS) and _everywhere(error))
        )


def _take_back_on_error(file: Path) -> None:
    """Empty a file if the script fails after all: then its last lines are what people want to read there."""
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        with suppress(OSError):
            file.write_text("", encoding="utf-8")
        before(kind, error, trace)

    sys.excepthook = hook


def _everywhere(error: BaseException) -> bool:
    return getattr(error, "everywhere", True)
