"""The node's own namespaces (processes, mounts, network): making them, entering them, and ending them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from cluster import commands, init, processes, waiting
from cluster.component import Component
from cluster.errors import FailedError
from cluster.layout import Places
from cluster.processes import Process

_START_SECONDS, _END_SECONDS = 20.0, 60.0
# What the components see of this machine's environment: no proxies, no credentials.
_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
}


def find(places: Places) -> Process | None:
    """Return the node's first process, if there is one."""
    return processes.first_of_nodes(processes.everything(), processes.own_space()).get(places.folder)


def others(places: Places) -> list[Path]:
    """Return the folders of other nodes on this machine."""
    return sorted(processes.first_of_nodes(processes.everything(), processes.own_space()).keys() - {places.folder})


def ensure(places: Places) -> Process:
    """Return the node's first process, made anew if there is none that is whole."""
    first = find(places)
    if first and not _is_ready(first):
        end(places)
        first = None
    return first or _start(places)


def _start(places: Places) -> Process:
    places.logs.mkdir(parents=True, exist_ok=True)
    log = log_of(places, "init")
    inside = ("unshare", "--mount", "--net", "--pid", "--fork", sys.executable, "-I", init.__file__)
    with log.open("wb") as output:
        _launch([*inside, str(places.folder)], output.fileno(), _ENVIRONMENT)

    def ready() -> bool:
        first = find(places)
        return first is not None and _is_ready(first)

    def check() -> None:
        if log.stat().st_size:
            raise FailedError(f"the node's namespaces cannot be made: {said(places, 'init')}")

    waiting.until(ready, "the node's namespaces", _START_SECONDS, check, every=0.05)
    first = find(places)
    if first is None:
        raise FailedError("the node's first process has ended")
    return first


def start(first: Process, component: Component, places: Places) -> None:
    """Start a component inside; it goes on when this process ends."""
    marked = _ENVIRONMENT | {processes.NAME: component.name, processes.DIGEST: component.digest}
    with log_of(places, component.name).open("ab") as output:
        _launch(component.command, output.fileno(), marked, _enter(first))


def start_again(first: Process, process: Process, places: Places) -> None:
    """Start a component that has ended, with the words and marks that it had."""
    with log_of(places, process.environment[processes.NAME]).open("ab") as output:
        _launch(process.arguments, output.fileno(), _ENVIRONMENT | dict(process.environment), _enter(first))


def run_inside(first: Process, *words: str, seconds: float = 30) -> str:
    """Run a program inside and return what it prints."""
    return commands.run(*_enter(first), *words, seconds=seconds, environment=_ENVIRONMENT)


def end(places: Places) -> None:
    """Kill the first process; return when everything that was inside is gone, too."""
    first = find(places)
    if first:
        kill(first)
    space = first.space if first else None
    waiting.until(
        lambda: not processes.left_of_node(processes.everything(), places.folder, space),
        "the end of the node's processes", _END_SECONDS, every=0.05,
    )  # fmt: skip


def kill(process: Process) -> None:
    """Kill a process that may be gone already."""
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)


def log_of(places: Places, name: str) -> Path:
    """Return the log of a component."""
    return places.logs / f"{name}.log"


def said(places: Places, name: str) -> str:
    """Return the last lines of a component's log."""
    log = log_of(places, name)
    return commands.last_lines(log.read_text(encoding="utf-8", errors="replace")) if log.exists() else "nothing"


def _is_ready(first: Process) -> bool:
    return Path(f"/proc/{first.pid}/root{init.READY}").exists()


def _enter(first: Process) -> list[str]:
    return [commands.find("nsenter") or "nsenter", f"--target={first.pid}", "--mount", "--net", "--pid", "--"]


def _launch(words: Sequence[str], output: int, environment: Mapping[str, str], entering: Sequence[str] = ()) -> None:
    """Start a process that is nobody's child: no signal to our group reaches it, and nobody has to wait for it."""
    apart = [*entering, commands.find("setsid") or "setsid", "--fork", *words]
    subprocess.run(
        apart, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, cwd="/",
        check=True, timeout=_START_SECONDS, start_new_session=True, umask=0o022,
    )  # fmt: skip
