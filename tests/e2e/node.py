"""What can be done to a pod from its node, where this machine is the node: its processes freeze, its way is cut."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cluster import commands, processes


def processes_of(uid: str) -> list[int]:
    """Return the processes of a pod's containers."""
    found = []
    for process in processes.everything():
        with suppress(OSError):
            inside = uid in Path(f"/proc/{process.pid}/cgroup").read_text(encoding="ascii")
            if inside and process.arguments[0] != "/pause":
                found.append(process.pid)
    return found


def component(name: str) -> list[int]:
    """Return the processes of a component of the node; none if this machine is not the node."""
    return [each.pid for each in processes.everything() if Path(each.arguments[0]).name == name]


@contextmanager
def frozen(pids: Collection[int]) -> Iterator[None]:
    """Let processes stand still."""
    _send(pids, signal.SIGSTOP)
    try:
        yield
    finally:
        _send(pids, signal.SIGCONT)


@contextmanager
def cut_off(pid: int, address: str) -> Iterator[None]:
    """Let nothing from a pod reach an address, and nothing come back."""
    enter = ("nsenter", f"--net=/proc/{pid}/ns/net", "iptables")
    rules = (("OUTPUT", "--destination", address), ("INPUT", "--source", address))
    for chain, *rest in rules:
        commands.run(*enter, "--insert", chain, *rest, "--jump", "DROP")
    try:
        yield
    finally:
        for chain, *rest in rules:
            commands.run(*enter, "--delete", chain, *rest, "--jump", "DROP")


def _send(pids: Collection[int], which: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, which)
