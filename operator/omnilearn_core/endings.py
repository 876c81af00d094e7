"""What the end of a worker counts as, and how long to wait before the next attempt: for processes and pods alike."""

from __future__ import annotations

from enum import StrEnum


class Meaning(StrEnum):
    """How a worker that ended counts."""

    FINISHED = "finished"
    PREEMPTED = "preempted"
    FAILED = "failed"
    OUT_OF_MEMORY = "out of memory"


def back_off(endings: int, first: float, longest: float) -> float:
    """Return the seconds to wait after so many endings in a row: doubled each time."""
    return min(longest, first * 2.0 ** min(max(endings, 1) - 1, 10))
