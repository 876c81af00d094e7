"""The workers' processes: started, ended, started again. The launcher calls it every moment; it never waits."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from omnilearn_core.api import names
from omnilearn_core.endings import Meaning

from . import restarts
from .events import EventLog
from .faults import Do, Fault
from .limits import Limits
from .minding import Minder
from .places import Exit, Place, Staff
from .processes import start_process
from .workers import Post, Slot, environment, log_file, token_file

# How long a worker that was asked to go may take beyond the grace that it knows of.
_BEYOND_GRACE = 5.0

# A worker that starts may use so much, whatever its limit: with a tenth of a CPU, importing torch takes a minute.
_STARTING_CPUS = 1.0


class Tokens(Protocol):
    """Who gives credentials to workers."""

    def issue(self, worker: str, attempt: int) -> str:
        """Return a credential of a worker's process."""

    def revoke(self, worker: str, attempt: int) -> None:
        """Take it back."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What the crew works with."""

    limits: Limits
    minder: Minder
    tokens: Tokens
    events: EventLog


class Crew:
    """All workers of a run, and the counts of what became of them."""

    def __init__(self, post: Post, workdir: Path, tools: Tools) -> None:
        self._post = post
        self._workdir = workdir
        self._tools = tools
        self._places: dict[str, Place] = {}
        self.starts = self.failures = self.preemptions = 0
        self.last_failure = self.late_failure = ""

    @property
    def workers(self) -> list[str]:
        """The names of all workers there were."""
        return list(self._places)

    @property
    def running(self) -> list[Place]:
        """The places with a process."""
        return [place for place in self._places.values() if place.process is not None]

    @property
    def coming(self) -> list[Place]:
        """The places whose process is to be started."""
        return [place for place in self._places.values() if place.start_at is not None]

    def staff(self, now: float) -> list[Staff]:
        """Return all workers as the display shows them."""
        return [
            Staff(place.slot.worker, place.slot.device, place.cpus, place.state(now)) for place in self._places.values()
        ]

    def engage(self, slot: Slot, now: float) -> None:
        """Take on a worker; its process starts with the next `start_due`."""
        self._places[slot.worker] = Place(slot, slot.cpus, start_at=now)

    def start_due(self, now: float) -> None:
        """Start the processes whose time has come, and kill those that were asked to go and did not."""
        for place in self.coming:
            if place.start_at is not None and place.start_at <= now:
                self._start(place, now)
        for place in self.running:
            if place.kill_at is not None and place.kill_at <= now and place.process is not None:
                place.process.send(signal.SIGKILL)
                place.kill_at = None

    def _start(self, place: Place, now: float) -> None:
        slot, attempt = place.slot, place.attempt + 1
        procs = self._make_cgroup(place)
        _write_private(token_file(self._post, slot, attempt), self._tools.tokens.issue(slot.worker, attempt))
        place.attempt, place.started, place.start_at = attempt, now, None
        place.on_purpose = place.frozen = False
        place.starting = True
        place.kill_at = None
        place.process = start_process(
            slot.command,
            environment(self._post, slot, attempt, os.environ) | self._told_quota(place),
            self._workdir,
            log_file(self._post, slot, attempt),
            procs,
            self._tools.minder,
        )
        self.starts += 1

    def _make_cgroup(self, place: Place) -> Path | None:
        """Return the file that takes the processes of a worker's cgroup, if there is one."""
        folder = self._tools.limits.folder(place.slot.worker)
        if folder is None:
            return None
        self._tools.minder.mind("cgroup", folder)
        try:
            return self._tools.limits.make(place.slot.worker, _at_first(place.cpus))
        except OSError as error:
            sentence = f"{place.slot.worker} runs without a CPU limit, because the kernel refused it: {error.strerror}"
            self._tools.events.add("Limits", sentence, place.slot.worker)
            return None

    def _told_quota(self, place: Place) -> dict[str, str]:
        """Return the limit that a worker will be held to, which it cannot see while it starts."""
        if place.cpus is None or not self._tools.limits.enforced:
            return {}
        return {names.ENV_CPU_QUOTA: f"{place.cpus:g}"}

    def hold_to_limits(self, joined: Collection[str]) -> None:
        """Hold those to their limit whose script has come to its first step: until then they only load libraries."""
        for place in self.running:
            if place.starting and place.slot.worker in joined:
                place.starting = False
                self._limit(place, place.cpus)

    def output(self) -> Iterator[tuple[str, str]]:
        """Return the new lines of all workers."""
        for place in self.running:
            if place.process is not None:
                for line in place.process.new_lines():
                    yield place.slot.worker, line

    def words(self) -> str:
        """Return the last lines of a worker that wrote something, for a job that does not begin."""
        for place in self.running:
            if place.process is not None and place.process.last_lines:
                lines = "\n".join(f"  | {line}" for line in place.process.last_lines)
                return f"the last lines of {place.slot.worker} are\n{lines}"
        return self.last_failure or "no worker has written anything"

    def reap(self, now: float) -> Iterator[tuple[Exit, list[str]]]:
        """Return the processes that have ended, each with the last lines of its output."""
        for place in self.running:
            process = place.process
            if process is None or (code := process.exit_code()) is None:
                continue
            lines = process.new_lines(last=True)
            process.close()
            place.process = None
            worker, attempt = place.slot.worker, place.attempt
            self._tools.tokens.revoke(worker, attempt)
            token_file(self._post, place.slot, attempt).unlink(missing_ok=True)
            if (folder := self._tools.limits.folder(worker)) is not None:
                self._tools.limits.remove(worker)
                if not folder.exists():
                    self._tools.minder.forget("cgroup", folder)
            yield Exit(place, code, now - place.started, tuple(process.last_lines)), lines

    def settle(self, exit_: Exit, now: float, *, over: bool) -> None:
        """Count an exit, say it, and have the worker come back unless it stays away or the job is over."""
        place = exit_.place
        meaning = restarts.meaning_of(exit_.code, on_purpose=place.on_purpose, over=over)
        finished = meaning is Meaning.FINISHED
        sentence = f"{exit_.worker} {'has finished' if finished else restarts.words_for(exit_.code)}"
        match meaning:
            case Meaning.FINISHED:
                place.finished = True
            case Meaning.PREEMPTED | Meaning.OUT_OF_MEMORY:
                self.preemptions += 1
            case Meaning.FAILED if over:
                self.late_failure = exit_.with_words(sentence)
            case Meaning.FAILED:
                self.failures += 1
                self.last_failure = exit_.with_words(sentence)
        self._tools.events.add("Exited", sentence if finished else f"{sentence} ({meaning})", exit_.worker)
        if not over and not place.stays_away:
            place.endings = 1 if exit_.ran_seconds > restarts.STEADY_SECONDS else place.endings + 1
            place.start_at = now + restarts.pause_after(place.endings)

    def strike(self, fault: Fault, now: float) -> str | None:
        """Let a fault happen to a worker; return a sentence if it cannot."""
        place = self._places[fault.target]
        if fault.do is Do.CPU:
            return self._limit(place, fault.cpus)
        if place.process is None:
            return f"{fault.target} is not running"
        match fault.do:
            case Do.KILL:
                place.process.send(signal.SIGKILL)
            case Do.TERMINATE:
                place.process.send(signal.SIGTERM, everybody=False)
                place.kill_at = now + self._post.grace_seconds + _BEYOND_GRACE
            case Do.FREEZE:
                place.process.send(signal.SIGSTOP)
            case _:
                place.process.send(signal.SIGCONT)
        place.frozen = fault.do is Do.FREEZE or (place.frozen and fault.do is not Do.THAW)
        if fault.do in (Do.KILL, Do.TERMINATE):
            place.on_purpose, place.stays_away = True, fault.stays_away
        return None

    def _limit(self, place: Place, cpus: float | None) -> str | None:
        place.cpus = cpus
        if not self._tools.limits.enforced:
            return "CPU limits are not enforced here"
        if place.process is not None and not place.starting:
            try:
                self._tools.limits.change(place.slot.worker, cpus)
            except OSError as error:
                return f"the kernel refused it: {error.strerror}"
        return None

    def ask(self, places: Iterable[Place]) -> None:
        """Ask processes to go. A frozen one is killed: it would wake up to a job that is over and begin it anew."""
        for place in places:
            if place.process is None:
                continue
            place.on_purpose = True
            if place.frozen:
                place.process.send(signal.SIGKILL)
            else:
                place.process.send(signal.SIGTERM, everybody=False)

    def kill(self, places: Iterable[Place]) -> None:
        """Kill processes."""
        for place in places:
            if place.process is not None:
                place.process.send(signal.SIGKILL)

    def dismiss(self) -> None:
        """Start nobody any more, and let those who are there end without limits: leaving takes work, too."""
        for place in self._places.values():
            place.start_at = None
        for place in self.running:
            with suppress(OSError):
                self._tools.limits.change(place.slot.worker, None)


def _at_first(cpus: float | None) -> float | None:
    return None if cpus is None else max(cpus, _STARTING_CPUS)


def _write_private(path: Path, text: str) -> None:
    with suppress(FileNotFoundError):
        path.unlink()
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(text)
