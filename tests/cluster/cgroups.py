"""The control groups below which the node's pods are: made before the kubelet starts, removed at the end."""

from __future__ import annotations

import os
from pathlib import Path

from cluster import waiting
from cluster.layout import CGROUP

_LIMIT_SECONDS = 20.0


def hierarchies(mounts: str) -> list[Path]:
    """Return where control groups of either version are mounted, given /proc/mounts."""
    lines = [line.split() for line in mounts.splitlines()]
    return [Path(words[1]) for words in lines if len(words) > 2 and words[2] in ("cgroup", "cgroup2")]


def ours() -> list[Path]:
    """Return our group in each hierarchy, whether it is there or not."""
    return [hierarchy / CGROUP for hierarchy in hierarchies(Path("/proc/self/mounts").read_text(encoding="utf-8"))]


def ensure() -> None:
    """Make the group in each hierarchy; the kubelet refuses one that is not there."""
    for group in ours():
        group.mkdir(exist_ok=True)


def remove() -> None:
    """Remove the groups with all below them; the kernel needs a moment after the last process has ended."""
    waiting.until(lambda: all(_gone(group) for group in ours()), "the removal of control groups", _LIMIT_SECONDS)


def _gone(group: Path) -> bool:
    for folder, _, _ in os.walk(group, topdown=False):
        try:
            Path(folder).rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return not group.exists()
