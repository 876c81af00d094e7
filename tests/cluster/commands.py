"""Running other programs: each with a limit, and with a sentence when it fails."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from cluster.errors import FailedError

# Programs of the system's administration are not on everybody's PATH.
SEARCH_PATH = ":".join((os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"))
_LAST_LINES = 12
_SHOWN_CHARACTERS = 200


def find(program: str) -> str | None:
    """Return where a program is, or None."""
    return shutil.which(program, path=SEARCH_PATH)


def run(
    *words: str | Path,
    seconds: float = 60,
    given: str | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> str:
    """Run a program and return what it prints; raise FailedError with its last lines."""
    program = find(str(words[0]))
    if program is None:
        raise FailedError(f"there is no program {words[0]} here: install it")
    shown = " ".join(map(str, words))[:_SHOWN_CHARACTERS]
    try:
        done = subprocess.run(
            [program, *map(str, words[1:])],
            input=given, stdin=subprocess.DEVNULL if given is None else None, capture_output=True, text=True,
            timeout=seconds, check=False, env=environment, cwd=folder,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise FailedError(f"{shown}: took longer than {seconds:.0f} s and was ended") from None
    if done.returncode:
        raise FailedError(f"{shown}: failed ({done.returncode}): {last_lines(done.stderr or done.stdout)}")
    return done.stdout


def succeeds(*words: str | Path, seconds: float = 10) -> bool:
    """Tell whether a program is there, and ends well in time."""
    try:
        run(*words, seconds=seconds)
    except FailedError:
        return False
    return True


def last_lines(text: str, lines: int = _LAST_LINES) -> str:
    """Return the end of a text, which is where programs say what is wrong."""
    kept = [line.rstrip() for line in text.splitlines() if line.strip()]
    return "\n  ".join(kept[-lines:]) or "it said nothing"
