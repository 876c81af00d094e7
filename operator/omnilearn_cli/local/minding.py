"""The launcher's end of the minder's pipe. However the launcher dies, the pipe closes, and the minder cleans up."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from . import minder

_LONGEST = minder.ASKED_SECONDS + minder.REMOVAL_SECONDS + 5.0


class Minder:
    """Tell the minder what would be left behind; `close` lets it clean up what still is."""

    def __init__(self) -> None:
        # A session of its own: what ends the launcher's terminal or process group must not end the minder.
        self._process = subprocess.Popen(  # noqa: S603 - our own file
            [sys.executable, "-I", "-S", minder.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
            cwd="/",
        )

    def mind(self, kind: str, value: int | Path) -> None:
        """Remember a process group, a cgroup or a folder."""
        self._tell(f"{kind} {value}")

    def forget(self, kind: str, value: int | Path) -> None:
        """Forget what is gone: its number may soon be another's."""
        self._tell(f"forget {kind} {value}")

    def close(self) -> None:
        """Let it clean up, and wait until it has."""
        assert self._process.stdin is not None  # noqa: S101 - we asked for a pipe
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_LONGEST)

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None  # noqa: S101 - we asked for a pipe
        if self._process.stdin.closed:
            return
        # A minder that somebody killed is no reason to stop training.
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
