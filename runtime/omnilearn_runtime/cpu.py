"""How many CPUs this worker may use, and keeping torch to them, also when the limit is changed on the way.

A container sees all CPUs of its node; as many threads on a small quota would only stop each other.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath

import torch

from omnilearn_core.api.names import ENV_CPU_QUOTA, ENV_THREADS, OMP_THREADS

_MOUNT = Path("sys/fs/cgroup")


def cpu_quota(root: Path = Path("/"), environ: Mapping[str, str] = os.environ) -> float | None:
    """Return the CPUs that this process may use: as told by the environment, else by its cgroups; none if unlimited."""
    if told := environ.get(ENV_CPU_QUOTA):
        return _told(told)
    return min(_quotas(root), default=None)


class Threads:
    """The threads that torch uses: as many as there are CPUs in the quota, unless the user has set OMP_NUM_THREADS."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        # Whoever started us may have set it from the limit of that time, and says so.
        self._free = environ.get(OMP_THREADS, "") in ("", environ.get(ENV_THREADS))
        self._quota: float | None = None

    def follow(self, quota: float | None) -> None:
        """Use as many threads as a quota allows; to be called by the thread that computes, for OpenMP asks each one."""
        if self._free and quota is not None and quota != self._quota:
            self._quota = quota
            torch.set_num_threads(max(1, math.ceil(quota)))


def _told(text: str) -> float:
    quota = _positive(text)
    if quota is None:
        raise ValueError(f"{ENV_CPU_QUOTA} is {text!r}: set it to a number of CPUs above zero, or leave it out")
    return quota


def _quotas(root: Path) -> Iterator[float]:
    """Return the limits of this process's own cgroup and of all above it: each of them holds."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            yield from _limits(root / _MOUNT, path, _quota_v2)
        elif "cpu" in controllers.split(","):
            for mount in dict.fromkeys([controllers, "cpu"]):
                yield from _limits(root / _MOUNT / mount, path, _quota_v1)


def _limits(mount: Path, path: str, quota_of: Callable[[Path], float | None]) -> Iterator[float]:
    """Return the limits set at a cgroup and above it, up to the mount.

    In a container the path may be the node's, and only the mount itself is there: what is missing limits nothing.
    """
    own = PurePosixPath(*(part for part in PurePosixPath(path).parts if part not in ("/", "..")))
    for group in (own, *own.parents):
        quota = quota_of(mount / group)
        if quota is not None:
            yield quota


def _quota_v2(group: Path) -> float | None:
    quota, _, period = _text(group / "cpu.max").strip().partition(" ")
    return _ratio(quota, period)


def _quota_v1(group: Path) -> float | None:
    return _ratio(_text(group / "cpu.cfs_quota_us"), _text(group / "cpu.cfs_period_us"))


def _ratio(quota: str, period: str) -> float | None:
    """Return CPUs from microseconds per period; "max", -1 and anything unreadable are no limit."""
    numerator, denominator = _positive(quota), _positive(period)
    return None if numerator is None or denominator is None else numerator / denominator


def _positive(text: str) -> float | None:
    """Return a finite number above zero; none if the text says anything else."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number > 0 else None


def _text(file: Path) -> str:
    """Return what is in a file of the kernel; nothing if it cannot be read."""
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
