"""The processes of this machine, and which of them are the node's. Nothing is remembered: no pid file can be stale."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# Set for every component, so that it can be told from its children and from an older one of itself.
NAME, DIGEST = "OMNILEARN_CLUSTER_PART", "OMNILEARN_CLUSTER_DIGEST"


@dataclass(frozen=True, slots=True)
class Process:
    """A process as /proc shows it; ``space`` is the namespace that its process numbers belong to."""

    pid: int
    space: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]


def everything() -> Iterator[Process]:
    """Return all processes that can be looked at."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (found := look(int(entry.name))):
            yield found


def look(pid: int) -> Process | None:
    """Return a process; None if it is not there, also if it ends while it is looked at."""
    with suppress(OSError):
        return _read(Path(f"/proc/{pid}"))
    return None


def own_space() -> str:
    """Return the namespace of this process."""
    return str(Path("/proc/self/ns/pid").readlink())


def first_of_nodes(processes: Iterable[Process], own: str) -> dict[Path, Process]:
    """Return the first process of every node by its folder; whoever has started it has the same words outside."""
    return {folder: process for process in processes if process.space != own and (folder := _folder(process))}


def left_of_node(processes: Iterable[Process], folder: Path, space: str | None) -> list[Process]:
    """Return what is left: processes inside, and whoever has started the first, who stays until all have ended."""
    return [process for process in processes if process.space == space or _folder(process) == folder]


def inside(processes: Iterable[Process], space: str) -> list[Process]:
    """Return the processes of a namespace."""
    return [process for process in processes if process.space == space]


def components(processes: Iterable[Process], space: str, programs: Mapping[str, str]) -> dict[str, Process]:
    """Return the running components by name; children have inherited the name, but are other programs."""
    running = {}
    for process in inside(processes, space):
        name = process.environment.get(NAME, "")
        if name and process.arguments and process.arguments[0] == programs.get(name):
            running[name] = process
    return running


def named(processes: Iterable[Process]) -> dict[str, Process]:
    """Return the components among some processes by name; children have inherited the name, but are other programs."""
    return {
        name: process
        for process in processes
        if (name := process.environment.get(NAME, "")) and Path(process.arguments[0]).name == name
    }


def resident_megabytes(pid: int) -> float:
    """Return how much memory a process has."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _folder(process: Process) -> Path | None:
    """Return the folder of the node that a process is the first of, or has started the first of."""
    script, folder = ("", "", *process.arguments)[-2:]
    return Path(folder) if script.endswith("/cluster/init.py") else None


def _read(entry: Path) -> Process:
    environment = dict(
        part.split("=", 1)
        for part in _words(entry / "environ")
        if part.startswith("OMNILEARN_CLUSTER_") and "=" in part
    )
    space = str((entry / "ns" / "pid").readlink())
    return Process(int(entry.name), space, tuple(_words(entry / "cmdline")), environment)


def _words(file: Path) -> list[str]:
    return file.read_bytes().decode(errors="replace").rstrip("\0").split("\0")
