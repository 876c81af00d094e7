"""Fault points: named places of the protocol at which a test may end, freeze or fail this process.

`OMNILEARN_FAULTS=before-update@5:kill,roll-call@3:freeze` kills the process when it passes `before-update` in round 5
or later, and freezes it at its first roll call from round 3 on. Each fault happens once. Without the variable a point
costs one look-up.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from enum import StrEnum


class Point(StrEnum):
    """Where a fault can be injected: every arrow of docs/protocol.md."""

    JOINED = "joined"
    ASSIGNED = "assigned"
    FORMING = "forming"
    BUILT = "built"
    ROLL_CALL = "roll-call"
    HEALING = "healing"
    HEALED = "healed"
    ENTERED = "entered"
    COMPUTING = "computing"
    CLAIMED = "claimed"
    """A piece of the tail was handed out to this worker, and to nobody else."""

    FIRST_BUCKET = "first-bucket"
    REDUCING = "reducing"
    BEFORE_UPDATE = "before-update"
    """All buckets are there, the update has not begun: dying here splits the commit."""

    AFTER_UPDATE = "after-update"
    LEASED = "leased"
    """A server has given this worker samples, and nobody else has them."""

    PUSHING = "pushing"
    PUSHED = "pushed"
    """The server has a gradient that it has not looked at yet."""

    APPLIED = "applied"
    """The server has applied a gradient, and nobody knows it yet."""

    SNAPSHOT = "snapshot"
    MEETING = "meeting"
    SWITCHING = "switching"
    CHECKPOINT = "checkpoint"
    EVALUATING = "evaluating"
    LEAVING = "leaving"
    FINISHING = "finishing"


class Deed(StrEnum):
    """What happens at a fault point."""

    KILL = "kill"
    FREEZE = "freeze"
    TERMINATE = "terminate"
    RAISE = "raise"
    PAUSE = "pause"


class InjectedError(RuntimeError):
    """The fault `raise`: an error as the user's script might have."""


_PAUSE_SECONDS = 1.0


class Faults:
    """The faults of this process that have not happened yet."""

    def __init__(self, text: str) -> None:
        self._lock = threading.Lock()
        self._waiting = [_parse(part) for part in text.split(",") if part]

    def pass_by(self, point: Point, round_: int) -> None:
        """Pass a point in round ``round_``; does what was asked for it, if anything was."""
        if not self._waiting:
            return
        with self._lock:
            due = next((fault for fault in self._waiting if fault[0] is point and round_ >= fault[1]), None)
            if due is None:
                return
            self._waiting.remove(due)
        _do(due[2], point)


def _do(deed: Deed, point: Point) -> None:
    if deed is Deed.RAISE:
        raise InjectedError(f"fault injected at {point}")
    if deed is Deed.PAUSE:
        time.sleep(_PAUSE_SECONDS)
        return
    signals = {Deed.KILL: signal.SIGKILL, Deed.FREEZE: signal.SIGSTOP, Deed.TERMINATE: signal.SIGTERM}
    os.kill(os.getpid(), signals[deed])


def _parse(text: str) -> tuple[Point, int, Deed]:
    where, _, deed = text.partition(":")
    point, _, round_ = where.partition("@")
    try:
        return Point(point), int(round_ or 0), Deed(deed or "kill")
    except ValueError:
        points, deeds = ", ".join(Point), ", ".join(Deed)
        raise ValueError(
            f"'{text}' is no fault: write POINT@ROUND:DEED, with a point of {points} and a deed of {deeds}"
        ) from None
