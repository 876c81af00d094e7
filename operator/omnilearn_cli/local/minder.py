"""Outlive the launcher, and clean up after it: processes, cgroups and the folder of tokens.

Run by path with the launcher's pipe as standard input (`minding` starts it); needs the standard library only. Each line
is a verb and a value: `group 123`, `cgroup PATH`, `folder PATH`, and `forget` before any of them. When the pipe
closes, whatever was not forgotten is ended: asked first, killed after five seconds.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable

ASKED_SECONDS = 5.0
REMOVAL_SECONDS = 5.0


def learn(lines: Iterable[str]) -> dict[str, list[str]]:
    """Return what is left of each kind once all lines are read."""
    kept: dict[str, list[str]] = {"group": [], "cgroup": [], "folder": []}
    for line in lines:
        words = line.rstrip("\n").split(" ", 2 if line.startswith("forget ") else 1)
        forget = words[0] == "forget"
        kind, value = words[1:] if forget else words
        if forget and value in kept[kind]:
            kept[kind].remove(value)
        elif not forget:
            kept[kind].append(value)
    return kept


def send(groups: list[int], *signals: int) -> list[int]:
    """Send signals to process groups; return those that are still there."""
    left = []
    for group in groups:
        try:
            for number in signals:
                os.killpg(group, number)
        except ProcessLookupError:
            continue
        except PermissionError:
            pass
        left.append(group)
    return left


def end(groups: list[int]) -> None:
    """Ask, wait, kill."""
    # What is frozen hears nothing until it goes on.
    left = send(groups, signal.SIGTERM, signal.SIGCONT)
    until = time.monotonic() + ASKED_SECONDS
    while left and time.monotonic() < until:
        time.sleep(0.05)
        left = send(left, 0)
    send(left, signal.SIGKILL)


def remove(cgroups: list[str], folders: list[str]) -> None:
    """Remove cgroups, with what still runs in them, and folders."""
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    until = time.monotonic() + REMOVAL_SECONDS
    left = cgroups
    while left and time.monotonic() < until:
        left = [folder for folder in left if not _removed(folder)]
        if left:
            time.sleep(0.05)


def _removed(cgroup: str) -> bool:
    try:
        os.rmdir(cgroup)  # noqa: PTH106 - starts quicker without pathlib
    except FileNotFoundError:
        return True
    except OSError:
        _kill_inside(cgroup)
        return False
    return True


def _kill_inside(cgroup: str) -> None:
    try:
        with open(os.path.join(cgroup, "cgroup.procs"), encoding="ascii") as members:  # noqa: PTH118, PTH123
            for line in members:
                os.kill(int(line), signal.SIGKILL)
    except (OSError, ValueError):
        return


def main() -> None:
    """Mind until the pipe closes."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    kept = learn(sys.stdin)
    end([int(group) for group in kept["group"]])
    remove(kept["cgroup"], kept["folder"])


if __name__ == "__main__":
    main()
