"""What the end of a worker's process means, and when the next one starts. Pure."""

from __future__ import annotations

import signal

from omnilearn_core.api.names import START_ANEW_EXIT
from omnilearn_core.endings import Meaning, back_off

_FIRST_SECONDS, _LONGEST_SECONDS = 0.5, 10.0
# A process that ran so long has not failed at its start: the back-off begins anew.
STEADY_SECONDS = 60.0
_TERMINATED = (128 + signal.SIGTERM, -signal.SIGTERM)


def meaning_of(code: int, *, on_purpose: bool, over: bool) -> Meaning:
    """Say how an exit counts; `on_purpose` if a fault of the script ended it, `over` if the job is complete."""
    if over and code == 0:
        return Meaning.FINISHED
    if on_purpose or code in (*_TERMINATED, START_ANEW_EXIT):
        return Meaning.PREEMPTED
    return Meaning.FAILED


def pause_after(endings: int) -> float:
    """Return the seconds to wait after so many endings in a row."""
    return back_off(endings, _FIRST_SECONDS, _LONGEST_SECONDS)


def words_for(code: int) -> str:
    """Say in words how a process ended."""
    if code < 0:
        try:
            return f"was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"was ended by signal {-code}"
    if code == 0:
        return "ended before the job was complete"
    return f"exited with {code}"
