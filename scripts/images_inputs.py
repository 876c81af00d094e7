"""What images are made from, and what was made of it: so that nothing is built when nothing has changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from scripts.images_engines import Build


def inputs(build: Build, recipe: str) -> str:
    """Return a digest of all that an image is made from: what .dockerignore lets through, arguments, base image."""
    folder, digest = build.folder, hashlib.sha256()
    digest.update(json.dumps([recipe, build.target, build.version, sorted(build.arguments.items())]).encode())
    for file in sorted(_files(folder)):
        status = file.stat()
        digest.update(f"{file.relative_to(folder)} {status.st_mode & 0o111} {status.st_size}\n".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    lines = (folder / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for place in (folder / name for name in ("Dockerfile", *(line[1:] for line in lines if line.startswith("!")))):
        found = [place] if place.is_file() else place.rglob("*")
        yield from (each for each in found if each.is_file() and "__pycache__" not in each.parts)


class Notes:
    """Remembers what each image was made from. A file that cannot be read is one without notes."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def read(self, name: str) -> list[str] | None:
        """Return what was written for an image."""
        return self._all().get(name)

    def write(self, name: str, note: list[str]) -> None:
        """Remember something for an image."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self._file.with_suffix(".new")
        unfinished.write_text(json.dumps({**self._all(), name: note}), encoding="utf-8")
        unfinished.replace(self._file)

    def _all(self) -> dict[str, list[str]]:
        try:
            found = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}
