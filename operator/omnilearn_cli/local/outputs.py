"""The folder that a run writes to, made ready: what an earlier run left there is not taken for this one's."""

from __future__ import annotations

import shutil
from pathlib import Path

from . import uses
from .workers import CannotStartError

_FILES = ("report.json", "steps.jsonl", "events.jsonl", "shares.png", uses.FILE)


def prepare(output: Path, job: str, *, resume: bool) -> None:
    """Make the folders, remove the earlier run's files, and put its checkpoints aside unless it is to go on."""
    try:
        for folder, ending in (("logs", "log"), ("workers", "jsonl")):
            (output / folder).mkdir(parents=True, exist_ok=True)
            for file in (output / folder).glob(f"{job}-*.{ending}"):
                file.unlink()
        for name in _FILES:
            (output / name).unlink(missing_ok=True)
        if not resume:
            _put_aside(output / "checkpoints")
    except OSError as error:
        raise CannotStartError(f"{error.filename or output} cannot be written: {error.strerror}") from None


def _put_aside(checkpoints: Path) -> None:
    """Keep the checkpoints of one earlier run under another name."""
    if not checkpoints.exists():
        return
    old = checkpoints.with_name("checkpoints.old")
    if old.exists():
        shutil.rmtree(old)
    checkpoints.rename(old)
