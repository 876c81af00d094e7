"""Where this machine limits CPUs: cgroup v2 or v1, found from the kernel's own descriptions. Pure.

`limits` writes there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

PERIOD_MICROSECONDS = 20_000
_SMALLEST_QUOTA = 1_000


@dataclass(frozen=True, slots=True)
class Place:
    """A folder of the kernel in which groups of processes can be made."""

    version: int
    folder: Path


@dataclass(frozen=True, slots=True)
class _Mount:
    root: PurePosixPath
    point: Path
    kind: str
    options: tuple[str, ...]


def places(own: str, mountinfo: str) -> list[Place]:
    """Return where a group may be made, the best first, from /proc/self/cgroup and /proc/self/mountinfo."""
    paths = dict(_paths(own))
    found: list[Place] = []
    for mount in _mounts(mountinfo):
        if mount.kind == "cgroup" and "cpu" in mount.options and "cpu" in paths:
            found.append(Place(1, _below(mount, paths["cpu"])))
        if mount.kind == "cgroup2" and "" in paths:
            inside = _below(mount, paths[""])
            found.append(Place(2, inside))
            # A group that holds processes itself may not pass its CPU on to groups inside; beside it may do.
            if inside != mount.point:
                found.append(Place(2, inside.parent))
    return sorted(found, key=lambda place: place.version)


def settings(version: int, cpus: float | None) -> list[tuple[str, str]]:
    """Return the files of a group and what to write into them, in this order."""
    quota = None if cpus is None else max(_SMALLEST_QUOTA, round(cpus * PERIOD_MICROSECONDS))
    if version == 2:
        return [("cpu.max", f"{'max' if quota is None else quota} {PERIOD_MICROSECONDS}")]
    period = ("cpu.cfs_period_us", str(PERIOD_MICROSECONDS))
    return [period, ("cpu.cfs_quota_us", str(-1 if quota is None else quota))]


def _paths(own: str) -> Iterator[tuple[str, str]]:
    """Return (controller, path) of each line `number:controllers:path`; that of version 2 has no controllers."""
    for line in own.splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        for controller in controllers.split(","):
            yield controller, path


def _mounts(mountinfo: str) -> Iterator[_Mount]:
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        left, right = before.split(), after.split()
        if len(left) >= 5 and len(right) >= 3:
            yield _Mount(PurePosixPath(left[3]), Path(left[4]), right[0], tuple(right[2].split(",")))


def _below(mount: _Mount, path: str) -> Path:
    """Return the folder of a path of the hierarchy; the mount point itself if the path lies outside of it."""
    try:
        return mount.point / PurePosixPath(path).relative_to(mount.root)
    except ValueError:
        return mount.point
