"""One process of a worker: started inside its cgroup, known to the minder before it runs a line, heard through its log.

Its output goes straight to its log file: a worker never waits for the launcher, and the log outlives it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from .minding import Minder

# Wait for the word to go: by then the minder knows of us, and a dead launcher gives none. $1 is the cgroup's file.
_GATE = 'read -r go || exit 125; [ -z "$1" ] || echo $$ >"$1" || exit 125; shift; exec "$@" </dev/null'
_CHUNK, _LONGEST_LINE = 2**18, 2**14
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")


class WorkerProcess:
    """A process, and all that it starts: they form one process group."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, minder: Minder) -> None:
        self._process = process
        self._minder = minder
        self._log = Tail(log)
        self.last_lines: deque[str] = deque(maxlen=10)

    @property
    def pid(self) -> int:
        """Its number, which is its group's, too."""
        return self._process.pid

    def exit_code(self) -> int | None:
        """Return its exit code, minus the signal's number if one ended it; none while it runs."""
        if self._process.returncode is None and self._process.poll() is not None:
            self._sweep()
        return self._process.returncode

    def send(self, *signals: signal.Signals, everybody: bool = True) -> None:
        """Send signals to the process, and to what it has started if `everybody`."""
        # Popen knows whether the process is already reaped; then its number may be another's.
        if self._process.returncode is not None:
            return
        with suppress(ProcessLookupError, PermissionError):
            for number in signals:
                (os.killpg if everybody else os.kill)(self.pid, number)

    def new_lines(self, *, last: bool = False) -> list[str]:
        """Return what it has written since; with `last` also a line that was not ended."""
        lines = self._log.lines(last=last)
        self.last_lines.extend(line for line in lines if line.strip())
        return lines

    def close(self) -> None:
        """Close the log."""
        self._log.close()

    def _sweep(self) -> None:
        """Kill what the process has started and left: loaders, say. They would keep its cgroup."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._minder.forget("group", self.pid)


class Tail:
    """The lines of a growing file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._rest = b""

    def lines(self, *, last: bool = False) -> list[str]:
        """Return the whole lines since the last call; not endlessly many at a time, unless they are the last."""
        data = self._rest + (self._file.read() if last else self._file.read(_CHUNK))
        *whole, self._rest = data.split(b"\n")
        if self._rest and (last or len(self._rest) > _LONGEST_LINE):
            whole.append(self._rest)
            self._rest = b""
        return [_readable(line) for line in whole]

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _readable(line: bytes) -> str:
    """Return a line as a terminal would leave it: without control characters, and what a progress bar ended with."""
    text = line.decode("utf-8", errors="replace").rstrip("\r").rpartition("\r")[2]
    return _CONTROL.sub("", text)[:_LONGEST_LINE]


def start_process(
    command: Sequence[str], env: Mapping[str, str], workdir: Path, log: Path, procs: Path | None, minder: Minder
) -> WorkerProcess:
    """Start a command in a session of its own; `procs` is the file of the cgroup that is to hold it."""
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - the user's own command
            ["/bin/sh", "-c", _GATE, "omnilearn", str(procs or ""), *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=workdir,
            env=dict(env),
        )
    minder.mind("group", process.pid)
    assert process.stdin is not None  # noqa: S101 - we asked for a pipe
    with suppress(BrokenPipeError):
        process.stdin.write(b"go\n")
        process.stdin.close()
    return WorkerProcess(process, log, minder)
