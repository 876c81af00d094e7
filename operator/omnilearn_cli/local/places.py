"""A worker's place in a run: its process, if there is one, and what is known of it. The crew keeps one per worker."""

from __future__ import annotations

from dataclasses import dataclass

from .processes import WorkerProcess
from .workers import Slot

# What is said of a process that nothing more is known of; of a member, the coordinator knows more.
RUNNING = "starting"


@dataclass(slots=True)
class Place:
    """A worker; its processes come and go."""

    slot: Slot
    cpus: float | None
    attempt: int = -1
    process: WorkerProcess | None = None
    started: float = 0.0
    start_at: float | None = None
    """When the next process starts, if one is to."""

    kill_at: float | None = None
    """When a process that was asked to go is killed."""

    starting: bool = False
    """True until its script has come to its first step."""

    endings: int = 0
    on_purpose: bool = False
    stays_away: bool = False
    frozen: bool = False
    finished: bool = False

    def state(self, now: float) -> str:
        """Say what the process does, for those who are no members."""
        if self.process is not None:
            return "frozen" if self.frozen else "leaving" if self.kill_at is not None else RUNNING
        if self.start_at is not None:
            return f"starts in {max(self.start_at - now, 0.0):.0f} s"
        return "finished" if self.finished else "away"


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of a process."""

    place: Place
    code: int
    ran_seconds: float
    last_lines: tuple[str, ...]

    @property
    def worker(self) -> str:
        """Whose process it was."""
        return self.place.slot.worker

    def with_words(self, sentence: str) -> str:
        """Return a sentence with the end of the output below it."""
        return "\n".join([sentence, *(f"  | {line}" for line in self.last_lines)])


@dataclass(frozen=True, slots=True)
class Staff:
    """A worker as the display shows it, member or not."""

    worker: str
    device: str
    cpus: float | None
    state: str
