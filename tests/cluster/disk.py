"""Whether there is room: said before the first minute is spent, not after the tenth."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from cluster.binaries import Build
from cluster.errors import ImpossibleError

# Objects, logs, volumes of pods, and small images. Big images are checked by whoever builds them.
RUNNING_GIGABYTES = 3.0
_GIGABYTE = 1e9


def needs(builds: Sequence[Build], cache: Path, folder: Path) -> dict[Path, float]:
    """Return how many gigabytes have to be free, and where."""
    needed = {folder: RUNNING_GIGABYTES}
    building = sum(build.gigabytes for build in builds)
    if building:
        needed[cache] = building + needed.get(cache, 0.0)
    return needed


def lacking(needed: Mapping[Path, float], free: Mapping[Path, tuple[int, float]]) -> str | None:
    """Return a sentence if there is too little room; ``free`` has the device and its free gigabytes for each place."""
    for device in {free[place][0] for place in needed}:
        there = [place for place in needed if free[place][0] == device]
        together = sum(needed[place] for place in there)
        if together > free[there[0]][1]:
            named = " and ".join(str(place) for place in there)
            return f"{named}: {together:.1f} GB are needed, {free[there[0]][1]:.1f} GB are free: make room"
    return None


def check(builds: Sequence[Build], cache: Path, folder: Path) -> str:
    """Return what is needed and what is free, or raise ImpossibleError."""
    needed = needs(builds, cache, folder)
    free = {place: _free(place) for place in needed}
    trouble = lacking(needed, free)
    if trouble:
        raise ImpossibleError(trouble)
    least = min(gigabytes for _, gigabytes in free.values())
    return f"{sum(needed.values()):.1f} GB of disk are needed, {least:.1f} GB are free"


def _free(place: Path) -> tuple[int, float]:
    """Return device and free gigabytes of the nearest folder that exists."""
    there = next(folder for folder in (place, *place.parents) if folder.exists())
    return there.stat().st_dev, shutil.disk_usage(there).free / _GIGABYTE
