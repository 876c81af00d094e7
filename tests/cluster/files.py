"""Files that are there whole or not at all, whenever the machine or the process stops."""

from __future__ import annotations

from pathlib import Path


def write(place: Path, text: str, mode: int = 0o644) -> None:
    """Write a file, and rename it to its place."""
    place.parent.mkdir(parents=True, exist_ok=True)
    unfinished = _unfinished(place)
    unfinished.touch(mode)
    unfinished.chmod(mode)
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(place)


def link(target: Path, place: Path) -> None:
    """Make a file available under another name."""
    unfinished = _unfinished(place)
    unfinished.symlink_to(target)
    unfinished.replace(place)


def _unfinished(place: Path) -> Path:
    """Return a name beside the place, free of what a crash may have left there."""
    unfinished = place.with_name(f"{place.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    return unfinished
