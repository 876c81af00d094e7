"""Hold each worker to its CPU limit: one cgroup per worker, made before its process runs and removed after it.

Where the kernel does not let us, everything runs without limits, and `warning` says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from . import cgroups
from .cgroups import Place

_OURS = re.compile(r"omnilearn-(\d+)-.+")
NOT_ENFORCED = "CPU limits are not enforced, because no cgroup can be made here: run as root, or in a delegated cgroup"


class Limits:
    """The cgroups of one launcher."""

    def __init__(self, place: Place | None, owner: int) -> None:
        self._place = place
        self._owner = owner
        self.warning = NOT_ENFORCED if place is None else None

    @property
    def enforced(self) -> bool:
        """True if a limit has an effect."""
        return self._place is not None

    def folder(self, worker: str) -> Path | None:
        """Return the folder of a worker's cgroup."""
        return None if self._place is None else self._place.folder / f"omnilearn-{self._owner}-{worker}"

    def make(self, worker: str, cpus: float | None) -> Path | None:
        """Make a worker's cgroup; return the file that takes its processes, or none if there is no limit to be had."""
        folder = self.folder(worker)
        if folder is None:
            return None
        folder.mkdir(exist_ok=True)
        self.change(worker, cpus)
        return folder / "cgroup.procs"

    def change(self, worker: str, cpus: float | None) -> None:
        """Give a worker another limit, at once; OSError if the kernel refuses it."""
        folder = self.folder(worker)
        if self._place is None or folder is None:
            return
        for name, value in cgroups.settings(self._place.version, cpus):
            (folder / name).write_text(value, encoding="ascii")

    def remove(self, worker: str) -> None:
        """Remove a worker's cgroup, if its processes are gone; what is left the minder removes."""
        if folder := self.folder(worker):
            with suppress(OSError):
                folder.rmdir()


def open_limits(owner: int, proc: Path = Path("/proc")) -> Limits:
    """Return the limits of this machine, after sweeping away what dead launchers have left."""
    try:
        own, mounts = ((proc / "self" / name).read_text(encoding="utf-8") for name in ("cgroup", "mountinfo"))
    except OSError:
        return Limits(None, owner)
    candidates = cgroups.places(own, mounts)
    for place in candidates:
        sweep(place.folder, (entry.name for entry in proc.iterdir() if entry.name.isdigit()))
    return Limits(next((place for place in candidates if _usable(place, owner)), None), owner)


def sweep(folder: Path, alive: Iterable[str]) -> None:
    """Remove the groups of launchers that are no more; one that still holds processes stays."""
    living = set(alive)
    with suppress(OSError):
        for child in folder.iterdir():
            match = _OURS.fullmatch(child.name)
            if match and match[1] not in living:
                with suppress(OSError):
                    child.rmdir()


def _usable(place: Place, owner: int) -> bool:
    """Try it: a group that can be made, limited and removed again."""
    trial = place.folder / f"omnilearn-{owner}-trial"
    try:
        if place.version == 2:
            _pass_cpu_on(place.folder)
        trial.mkdir()
    except OSError:
        return False
    try:
        for name, value in cgroups.settings(place.version, 1.0):
            if not (trial / name).exists():
                return False
            (trial / name).write_text(value, encoding="ascii")
    except OSError:
        return False
    finally:
        with suppress(OSError):
            trial.rmdir()
    return True


def _pass_cpu_on(folder: Path) -> None:
    """Let groups inside limit their CPUs, if the kernel allows it and they do not already."""
    control = folder / "cgroup.subtree_control"
    if "cpu" not in control.read_text(encoding="ascii").split():
        control.write_text("+cpu", encoding="ascii")
