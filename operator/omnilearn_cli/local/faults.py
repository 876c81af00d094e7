"""What is to happen to a running job on purpose, and when: values, and which of them are due. Pure.

`reading` makes them from a file or the command line; the launcher asks `due` and plays them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum


class Do(StrEnum):
    """What a fault does."""

    KILL = "kill"
    FREEZE = "freeze"
    THAW = "thaw"
    TERMINATE = "terminate"
    ADD = "add"
    CPU = "cpu"
    STOP_COORDINATOR = "stopCoordinator"
    START_COORDINATOR = "startCoordinator"


TO_WORKERS = frozenset({Do.KILL, Do.FREEZE, Do.THAW, Do.TERMINATE, Do.CPU})


@dataclass(frozen=True, slots=True)
class Moment:
    """Seconds since the first generation was entered, or a step."""

    seconds: float | None = None
    step: int | None = None

    def has_come(self, seconds: float, step: int) -> bool:
        """Tell whether it is now, or past."""
        if self.step is not None:
            return step >= self.step
        return self.seconds is not None and seconds >= self.seconds

    def __str__(self) -> str:
        return f"step {self.step}" if self.step is not None else f"{self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is to happen; `target` is a worker, or a group for `add`, and nothing for the coordinator."""

    at: Moment
    do: Do
    target: str = ""
    cpus: float | None = None
    stays_away: bool = False

    def __str__(self) -> str:
        amount = f"={self.cpus:g}" if self.cpus is not None else ""
        return f"{self.do} {self.target}{amount}".rstrip()


class BadFaultError(Exception):
    """A fault that cannot be understood or played; the sentence says what to change."""


def due(faults: Iterable[Fault], seconds: float, step: int) -> tuple[list[Fault], list[Fault]]:
    """Return the faults whose moment has come, the earliest first, and the rest in the order they were in."""
    now: list[Fault] = []
    later: list[Fault] = []
    for fault in faults:
        (now if fault.at.has_come(seconds, step) else later).append(fault)
    return sorted(now, key=lambda fault: fault.at.seconds or 0.0), later


def resolved(faults: Iterable[Fault], job: str, groups: Sequence[str], workers: Sequence[str]) -> list[Fault]:
    """Return the faults with the full names of their workers; BadFaultError if one is not there and never will be."""
    faults = list(faults)
    known = [*workers, *added_workers(faults, job, groups, workers)]
    return [_resolved(fault, job, groups, known) for fault in faults]


def added_workers(faults: Iterable[Fault], job: str, groups: Sequence[str], workers: Sequence[str]) -> list[str]:
    """Return the names of the workers that `add` will make."""
    names = list(workers)
    for fault in faults:
        if fault.do is Do.ADD and fault.target in groups:
            names.append(next_worker(names, job, fault.target))
    return names[len(workers) :]


def next_worker(workers: Iterable[str], job: str, group: str) -> str:
    """Return the name of one more worker of a group."""
    prefix = f"{job}-{group}-"
    taken = [int(name.removeprefix(prefix)) for name in workers if name.startswith(prefix)]
    return f"{prefix}{max(taken, default=-1) + 1}"


def _resolved(fault: Fault, job: str, groups: Sequence[str], workers: Sequence[str]) -> Fault:
    if fault.do is Do.ADD and fault.target not in groups:
        raise BadFaultError(f"{fault}: there is no group {fault.target}: use one of {', '.join(groups)}")
    if fault.do not in TO_WORKERS:
        return fault
    for name in (fault.target, f"{job}-{fault.target}"):
        if name in workers:
            return replace(fault, target=name)
    raise BadFaultError(f"{fault}: there is no worker {fault.target}: use one of {', '.join(workers)}")
