"""Checkpoints in a folder: written aside, made visible whole, and read back with suspicion.

The session of the lead calls `Writer`; every session calls `Checkpoints.newest` when a generation starts anew.
A file is named by generation and round. A temporary file is locked for as long as its writer lives, so that those of
the dead can be told from those of the living, also on a volume that several pods share.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import socket
import threading
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

import torch
from torch import Tensor

from .codec import DamagedError, Packed, unpack

_log = logging.getLogger(__name__)
_NAME = re.compile(r"checkpoint-(\d{10,16})-(\d{12,16})\.pt")

Key = tuple[int, int]
Outcome = Literal["written", "refused", "failed", "dropped"]


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """What was read from a checkpoint, and which one it is."""

    generation: int
    round: int
    packed: Packed


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """A checkpoint that is whole and on disk, but not yet visible under its name."""

    generation: int
    round: int
    file: BinaryIO
    path: Path


class Checkpoints:
    """The checkpoints of a job in one folder; the newest ``keep`` stay."""

    def __init__(self, folder: Path, keep: int) -> None:
        if keep < 1:
            raise ValueError(f"cannot keep {keep} checkpoints: keep at least one")
        self.folder = folder
        self.keep = keep

    def last_generation(self) -> int:
        """Return the highest generation that a file is named after, readable or not: none below it can be saved."""
        return max((generation for generation, _ in self._keys()), default=0)

    def save(self, generation: int, round: int, packed: Packed) -> bool:  # noqa: A002 - the protocol's word
        """Write a checkpoint; false if there is one of a newer generation. Raises OSError if it cannot be written."""
        return self.publish(self.draft(generation, round, packed))

    def draft(self, generation: int, round: int, packed: Packed) -> Draft:  # noqa: A002 - the protocol's word
        """Write a checkpoint to a temporary file, whole and on disk, without making it visible."""
        self.folder.mkdir(parents=True, exist_ok=True)
        writer = f"{socket.gethostname()}-{os.getpid()}-{threading.get_ident()}"
        path = self.folder / f".checkpoint-{generation}-{round}-{writer}.tmp"
        file = path.open("wb")
        try:
            _lock(file)
            tensors = [_compact(tensor) for tensor in packed.tensors]
            torch.save({"version": 1, "text": packed.text, "tensors": tensors}, file)
            file.flush()
            os.fsync(file.fileno())
        except (OSError, RuntimeError, MemoryError) as error:
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # what is still buffered fails again
                file.close()
            raise _first(error) from None
        return Draft(generation, round, file, path)

    def publish(self, draft: Draft) -> bool:
        """Make a draft visible and remove what is no longer needed; false if a newer generation has saved meanwhile."""
        newest = self.last_generation()
        if newest > draft.generation:
            _log.warning(
                "The checkpoint of round %d is dropped: it is of generation %d, and %s has one of generation %d.",
                *(draft.round, draft.generation, self.folder, newest),
            )
            self.discard(draft)
            return False
        with draft.file:
            draft.path.rename(self.folder / _name((draft.generation, draft.round)))
        self._sync()
        self._clean()
        return True

    def discard(self, draft: Draft) -> None:
        """Remove a draft that is not wanted."""
        with draft.file:
            draft.path.unlink(missing_ok=True)

    def newest(self) -> Loaded | None:
        """Return the newest checkpoint that can be read; those that cannot are skipped with a warning."""
        for key in sorted(self._keys(), reverse=True):
            path = self.folder / _name(key)
            try:
                return Loaded(*key, _load(path))
            except Exception as error:  # noqa: BLE001 - a broken file may make torch raise anything
                _log.warning("The checkpoint %s is skipped: it cannot be read (%s).", path, _one_line(error))
        return None

    def _keys(self) -> list[Key]:
        if not self.folder.is_dir():
            return []
        matches = (_NAME.fullmatch(path.name) for path in self.folder.iterdir())
        keys = ((match[0], (int(match[1]), int(match[2]))) for match in matches if match)
        return [key for name, key in keys if name == _name(key)]

    def _sync(self) -> None:
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _clean(self) -> None:
        for key in sorted(self._keys(), reverse=True)[self.keep :]:
            (self.folder / _name(key)).unlink(missing_ok=True)
        for path in self.folder.glob(".checkpoint-*.tmp"):
            _remove_if_dead(path)


def _name(key: Key) -> str:
    return f"checkpoint-{key[0]:010d}-{key[1]:012d}.pt"


def _compact(tensor: Tensor) -> Tensor:
    """Return a tensor that does not bring a larger storage along: torch saves storages whole."""
    plain = tensor.detach().cpu()
    return plain if plain.untyped_storage().nbytes() == plain.nbytes else plain.clone()


def _remove_if_dead(path: Path) -> None:
    """Remove a temporary file that no living writer has locked."""
    try:
        with path.open("rb") as file:
            if _lock(file):
                path.unlink(missing_ok=True)
    except FileNotFoundError:
        return  # its writer has finished meanwhile


def _lock(file: BinaryIO) -> bool:
    """Lock a file for as long as it is open here; false if somebody else has, or if the volume knows no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _load(path: Path) -> Packed:
    # torch leaves out the checksums that it has written itself, so a flipped bit would become a weight.
    with zipfile.ZipFile(path) as archive:
        if damaged := archive.testzip():
            raise DamagedError(f"the checksum of {damaged} is wrong")
    match torch.load(path, weights_only=True, map_location="cpu"):
        case {"version": 1, "text": str(text), "tensors": list(tensors)} if all(type(t) is Tensor for t in tensors):
            packed = Packed(text, tensors)
            unpack(packed)
            return packed
        case _:
            raise DamagedError("it holds no state, or one of another version")


def _first(error: BaseException) -> BaseException:
    """Return what went wrong first: torch covers a full disk with an error of its own."""
    while error.__context__ is not None:
        error = error.__context__
    return error


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".split("\n", 1)[0][:300]


@dataclass(slots=True)
class _Pending:
    """The checkpoint that is being written, or waits to be confirmed."""

    generation: int
    round: int
    draft: Draft | None = None
    confirmed: bool = False
    dropped: bool = False


class Writer:
    """Writes checkpoints beside the training thread, one at a time; no method blocks but `finish`, and none raises."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints
        self._changed = threading.Condition()
        self._pending: _Pending | None = None
        self.counts: Counter[Outcome] = Counter()

    @property
    def busy(self) -> bool:
        """True while one is being written or waits to be confirmed: skip this time."""
        return self._pending is not None

    def begin(self, generation: int, round: int, packed: Packed) -> bool:  # noqa: A002 - the protocol's word
        """Start to write a copy that nobody changes any more; false, and nothing happens, while one is pending."""
        with self._changed:
            if self._pending:
                return False
            self._pending = _Pending(generation, round)
        self._start(self._write, self._pending, packed)
        return True

    def confirm(self, round: int) -> None:  # noqa: A002 - the protocol's word
        """Say that all members hold ``round``: what is pending of it, or of an earlier one, may become visible."""
        with self._changed:
            pending = self._pending
            if pending is None or pending.confirmed or pending.dropped or pending.round > round:
                return
            pending.confirmed = True
            written = pending.draft
        if written:
            self._start(self._publish, pending, written)

    def drop(self) -> None:
        """Give up what is pending, unless it was confirmed."""
        with self._changed:
            pending = self._pending
            if pending is None or pending.confirmed or pending.dropped:
                return
            pending.dropped = True
            written = pending.draft
        if written:
            self._start(self._discard, pending, written)

    def finish(self, timeout: float) -> bool:
        """Wait for what was confirmed, and drop what was not; false if it is not settled after the timeout."""
        self.drop()
        with self._changed:
            return self._changed.wait_for(lambda: self._pending is None or self._pending.dropped, timeout)

    def _start(self, work: Callable[[_Pending, Any], None], pending: _Pending, subject: Any) -> None:
        def run() -> None:
            try:
                work(pending, subject)
            except Exception as error:  # noqa: BLE001 - training goes on without this checkpoint
                self._fail(pending, error)

        try:
            threading.Thread(target=run, name="omnilearn-checkpoint", daemon=True).start()
        except RuntimeError as error:  # no more threads to be had
            self._fail(pending, error)

    def _write(self, pending: _Pending, packed: Packed) -> None:
        draft = self._checkpoints.draft(pending.generation, pending.round, packed)
        with self._changed:
            pending.draft = draft
            confirmed, dropped = pending.confirmed, pending.dropped
        if confirmed:
            self._publish(pending, draft)
        elif dropped:
            self._discard(pending, draft)

    def _publish(self, _: _Pending, draft: Draft) -> None:
        self._settle("written" if self._checkpoints.publish(draft) else "refused")

    def _discard(self, _: _Pending, draft: Draft) -> None:
        self._checkpoints.discard(draft)
        self._settle("dropped")

    def _settle(self, outcome: Outcome) -> None:
        with self._changed:
            self._pending = None
            self.counts[outcome] += 1
            self._changed.notify_all()

    def _fail(self, pending: _Pending, error: Exception) -> None:
        _log.error("The checkpoint of round %d could not be written: %s.", pending.round, _one_line(error))
        self._settle("failed")
