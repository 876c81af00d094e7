"""Bring images into a cluster without a registry: only layers that it does not have travel.

What a cluster has is remembered in a file beside its images. If the file is wrong (somebody has removed the images),
the import fails, and everything is sent.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.images_engines import BuildError, Engine, Image, run
from scripts.images_inputs import Notes


@dataclass(frozen=True, slots=True)
class Delivery:
    """A cluster: the command that imports an archive, whose path comes last, and the file that remembers."""

    command: Sequence[str]
    memory: Path


def deliver(engine: Engine, name: str, image: Image, delivery: Delivery) -> float:
    """Import an image into a cluster; return how many megabytes that took."""
    notes = Notes(delivery.memory)
    known = set(notes.read(name) or ()) & set(image.layers)
    with tempfile.TemporaryDirectory(dir=engine.folder if engine.folder.exists() else None) as folder:
        archive = Path(folder) / "image.tar"
        sent = _changes(engine, name, archive, delivery, known) if known else None
        if sent is None:
            archive.unlink(missing_ok=True)
            engine.save(name, archive)
            run([*delivery.command, str(archive)])
            sent = archive.stat().st_size / 1e6
    notes.write(name, list(image.layers))
    return sent


def _changes(engine: Engine, name: str, archive: Path, delivery: Delivery, known: set[str]) -> float | None:
    """Send what is new; return None if that was not enough."""
    engine.save_changes(name, archive, known)
    try:
        run([*delivery.command, str(archive)])
    except BuildError:
        print(f"{name}: the cluster does not have the other layers any more, sending all of them", file=sys.stderr)
        return None
    return archive.stat().st_size / 1e6
