"""A running job as text: the table of workers, the line of progress. Pure: values in, rich renderables out."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group
from rich.table import Table
from rich.text import Text

from .events import Event
from .figures import fractions
from .places import RUNNING, Staff
from .view import Member, View

_BAR_WIDTH = 20
_BAR = {"compute": ("█", "green"), "load": ("▓", "yellow"), "reduce": ("▒", "blue"), "wait": ("░", "bright_black")}
_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "bright_red", "bright_cyan", "bright_magenta")
_PACE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Scene:
    """All that the display shows at one moment."""

    view: View
    staff: Sequence[Staff]
    events: Sequence[Event]
    pace: float | None


class Pace:
    """Samples per second over the last few seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def measure(self, now: float, samples: int) -> float | None:
        """Note how far the job is; return its speed, if it has moved."""
        # After a restart from a checkpoint it is less than before: begin anew.
        if self._seen and samples < self._seen[-1][1]:
            self._seen.clear()
        self._seen.append((now, samples))
        while len(self._seen) > 2 and self._seen[1][0] < now - _PACE_SECONDS:
            self._seen.popleft()
        (then, before) = self._seen[0]
        return (samples - before) / (now - then) if now > then and samples > before else None


def render(scene: Scene) -> Group:
    """Return table, progress, last decision and last events."""
    lines = [Text(progress_line(scene.view, scene.pace), style="bold")]
    if scene.view.decisions:
        lines.append(Text(scene.view.decisions[-1][1], style="italic"))
    lines += [Text(event_line(event), style="bright_black") for event in scene.events[-3:]]
    return Group(table_of(scene.view, scene.staff), *lines)


def table_of(view: View, staff: Sequence[Staff]) -> Table:
    """Return the table of all workers, members or not."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("worker", "device", "CPUs", "share", "samples/s"):
        table.add_column(name, justify="left" if name in ("worker", "device") else "right", no_wrap=True)
    table.add_column("compute █ load ▓ reduce ▒ wait ░", no_wrap=True)
    table.add_column("state", no_wrap=True)
    members = {member.worker: member for member in view.members}
    for place, one in enumerate(staff):
        table.add_row(*_row(one, members.get(one.worker), colour(place)))
    return table


def _row(one: Staff, member: Member | None, style: str) -> list[Text | str]:
    cpus = "–" if one.cpus is None else f"{one.cpus:g}"
    if member is None:
        return [Text(one.worker, style=style), one.device, cpus, "", "", "", one.state]
    share = f"{member.share} + {member.beyond}" if member.beyond else str(member.share)
    share += f" in {member.local_steps}" if member.local_steps else ""
    share += "" if member.staleness is None else f", {member.staleness:.1f} late"
    speed = "" if member.samples_per_second is None else f"{member.samples_per_second:,.0f}"
    state = member.state if one.state == RUNNING else one.state
    return [Text(one.worker, style=style), one.device, cpus, share, speed, bar(member), state]


def bar(member: Member, width: int = _BAR_WIDTH) -> Text:
    """Return where a member's time goes, as a bar; what is missing went elsewhere."""
    parts = fractions(
        member.step_seconds,
        compute=member.compute_seconds,
        load=member.load_seconds,
        reduce=member.reduce_seconds,
        wait=member.wait_seconds,
    )
    drawn, reach, text = 0, 0.0, Text()
    for name, fraction in parts.items():
        reach += fraction
        # Rounded at the borders, not each part by itself, so that the whole is never longer than the bar.
        until = round(reach * width)
        sign, style = _BAR[name]
        text.append(sign * (until - drawn), style=style)
        drawn = until
    return text


def colour(place: int) -> str:
    """Return the colour of the worker at a place in the list."""
    return _COLOURS[place % len(_COLOURS)]


def progress_line(view: View, pace: float | None) -> str:
    """Say in a line how far the job is."""
    if view.generation is None:
        return view.phase
    parts = [view.phase, f"step {view.step}", f"epoch {view.epoch}"]
    if view.total_samples:
        parts.append(f"{min(100.0 * view.samples / view.total_samples, 100.0):.1f}%")
    if pace:
        parts.append(f"{pace:,.0f} samples/s")
        if view.total_samples:
            parts.append(f"{duration(max(view.total_samples - view.samples, 0) / pace)} left")
    if view.loss is not None:
        parts.append(f"loss {view.loss:.4g}")
    parts += [f"{name} {value:.4g}" for name, value in list(view.logged.items())[:6]]
    return " · ".join(parts)


def duration(seconds: float) -> str:
    """Return seconds as people say them."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def event_line(event: Event) -> str:
    """Return an event as a line."""
    return f"{event.seconds:7.1f} s  {event.sentence.splitlines()[0] if event.sentence else event.kind}"
