"""What happened during a run, for people: kept, and written as one JSON line each as it happens."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened: when (Unix time, and seconds since the launch), to whom, and a sentence."""

    time: float
    seconds: float
    kind: str
    sentence: str
    worker: str = ""


class EventLog:
    """The events of a run, in order; `tell` hears of each at once."""

    def __init__(self, path: Path, clock: Callable[[], float], tell: Callable[[Event], None]) -> None:
        self._file = path.open("w", encoding="utf-8")
        self._clock = clock
        self._began = clock()
        self._tell = tell
        self.events: list[Event] = []

    def add(self, kind: str, sentence: str, worker: str = "") -> None:
        """Note an event."""
        now = self._clock()
        event = Event(round(now, 3), round(now - self._began, 3), kind, sentence, worker)
        self.events.append(event)
        self._file.write(json.dumps(asdict(event), ensure_ascii=False) + "\n")
        self._file.flush()
        self._tell(event)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
