"""Show a run: a live table on a terminal, plain lines elsewhere. The launcher tells it everything."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from . import table
from .events import Event
from .places import Staff
from .view import View

_PROGRESS_SECONDS = 5.0
# Looking at the whole job takes its time; a person reads no faster than this.
_LOOK_SECONDS = 0.25


class Display(Protocol):
    """Where a run is shown."""

    def event(self, event: Event) -> None:
        """Show an event."""

    def output(self, worker: str, line: str) -> None:
        """Show a line that a worker wrote."""

    def look(self, view: View, staff: Sequence[Staff], now: float) -> None:
        """Show how the job stands, if it is time."""

    def close(self) -> None:
        """End it."""


def display_for(console: Console, environ: Mapping[str, str] = os.environ) -> Display:
    """Return a live table for a terminal; plain lines for a file, a CI, or who wants no colours."""
    if console.is_terminal and not environ.get("NO_COLOR") and not environ.get("CI"):
        return LiveDisplay(console)
    return PlainDisplay(console)


class PlainDisplay:
    """Events and output at once, progress every few seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._pace = table.Pace()
        self._shown: float | None = None

    def event(self, event: Event) -> None:
        """Print an event."""
        self._print(table.event_line(event))

    def output(self, worker: str, line: str) -> None:
        """Print a line of a worker, its name in front."""
        self._print(f"{worker} | {line}")

    def look(self, view: View, staff: Sequence[Staff], now: float) -> None:
        """Print a line of progress every few seconds."""
        if view.generation is None or (self._shown is not None and now < self._shown + _PROGRESS_SECONDS):
            return
        self._shown = now
        self._print(table.progress_line(view, self._pace.measure(now, view.samples)))

    def close(self) -> None:
        """Nothing to end."""

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, emoji=False, highlight=False, soft_wrap=True)


class LiveDisplay:
    """A table that is drawn anew, below what the workers write."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._pace = table.Pace()
        self._events: deque[Event] = deque(maxlen=3)
        self._places: dict[str, int] = {}
        self._looked = 0.0
        self._live = Live(console=console, auto_refresh=False, transient=False, redirect_stdout=False)
        self._live.start()

    def event(self, event: Event) -> None:
        """Keep an event for the next look."""
        self._events.append(event)

    def output(self, worker: str, line: str) -> None:
        """Print a line of a worker above the table."""
        name = Text(f"{worker} | ", style=table.colour(self._places.get(worker, 0)))
        self._console.print(name.append(line, style="default"), soft_wrap=True)

    def look(self, view: View, staff: Sequence[Staff], now: float) -> None:
        """Draw the table."""
        if now < self._looked + _LOOK_SECONDS:
            return
        self._looked = now
        self._places = {one.worker: place for place, one in enumerate(staff)}
        scene = table.Scene(view, staff, tuple(self._events), self._pace.measure(now, view.samples))
        self._live.update(table.render(scene), refresh=True)

    def close(self) -> None:
        """Leave the last table standing."""
        self._live.stop()
