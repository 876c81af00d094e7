"""Checkpoints are whole or not there, whatever kills the writer, and only sound ones are read."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from omnilearn_runtime.checkpoint import Checkpoints, Draft, Writer
from omnilearn_runtime.codec import Packed, pack, unpack


def state(number: int) -> Packed:
    return pack({"weight": torch.full((1000,), float(number)), "number": number})


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def number_of(checkpoints: Checkpoints) -> int | None:
    loaded = checkpoints.newest()
    if loaded is None:
        return None
    number = unpack(loaded.packed)["number"]
    assert unpack(loaded.packed)["weight"].tolist() == [float(number)] * 1000
    return int(number)


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path / "saved", keep=2)


def test_what_was_saved_is_read_again(checkpoints: Checkpoints) -> None:
    assert checkpoints.save(3, 12, state(5))
    loaded = checkpoints.newest()
    assert loaded is not None
    assert (loaded.generation, loaded.round, number_of(checkpoints)) == (3, 12, 5)
    assert names(checkpoints.folder) == ["checkpoint-0000000003-000000000012.pt"]


def test_a_folder_that_is_not_there_has_no_checkpoint(checkpoints: Checkpoints) -> None:
    assert checkpoints.newest() is None
    assert checkpoints.last_generation() == 0


def test_only_the_newest_stay(checkpoints: Checkpoints) -> None:
    for generation, number in [(1, 8), (1, 9), (2, 9), (2, 10)]:
        assert checkpoints.save(generation, number, state(number))
    assert names(checkpoints.folder) == [f"checkpoint-0000000002-{n:012d}.pt" for n in (9, 10)]


def test_an_older_generation_never_replaces_a_newer(checkpoints: Checkpoints, caplog: pytest.LogCaptureFixture) -> None:
    checkpoints.save(5, 1, state(5))
    assert not checkpoints.save(4, 99, state(4))
    assert number_of(checkpoints) == 5
    assert names(checkpoints.folder) == ["checkpoint-0000000005-000000000001.pt"]
    assert "it is of generation 4" in caplog.text


def test_a_view_is_saved_without_the_rest_of_its_storage(checkpoints: Checkpoints) -> None:
    checkpoints.save(1, 1, pack(torch.zeros(10**6)[:10]))
    assert next(checkpoints.folder.iterdir()).stat().st_size < 10_000


class Bomb:
    def __reduce__(self) -> Any:
        return os.mkdir, ("bomb",)


def truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def flipped(file: Path) -> None:
    content = bytearray(file.read_bytes())
    at = content.index(torch.full((50,), 2.0).numpy().tobytes())
    content[at] ^= 1
    file.write_bytes(content)


def replaced_by_a_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "truncated": truncated,
    "a flipped bit": flipped,
    "empty": lambda file: file.write_bytes(b""),
    "garbage": lambda file: file.write_bytes(os.urandom(5000)),
    "a pickle": lambda file: file.write_bytes(pickle.dumps(Bomb())),
    "a pickle of torch": lambda file: torch.save(Bomb(), file),
    "a directory": replaced_by_a_directory,
    "another version": lambda file: torch.save({"version": 2, "text": "null", "tensors": []}, file),
    "no tensors": lambda file: torch.save({"version": 1, "text": "null", "tensors": [1]}, file),
    "a text without its tensors": lambda file: torch.save({"version": 1, "text": '["tensor",0]', "tensors": []}, file),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_checkpoint_is_skipped_and_named(
    checkpoints: Checkpoints, damage: Callable[[Path], object], caplog: pytest.LogCaptureFixture, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    checkpoints.save(1, 1, state(1))
    checkpoints.save(2, 2, state(2))
    damage(checkpoints.folder / "checkpoint-0000000002-000000000002.pt")
    assert number_of(checkpoints) == 1
    assert "checkpoint-0000000002-000000000002.pt is skipped" in caplog.text
    assert not (tmp_path / "bomb").exists()
    assert checkpoints.last_generation() == 2, "or the next generation could not save"


def test_every_cut_of_a_checkpoint_is_skipped(checkpoints: Checkpoints) -> None:
    checkpoints.save(1, 1, pack({"a": torch.ones(3)}))
    file = next(checkpoints.folder.iterdir())
    content = file.read_bytes()
    for length in range(0, len(content), 37):
        file.write_bytes(content[:length])
        assert checkpoints.newest() is None


WRITERS = """
import os, sys, torch
from pathlib import Path
from omnilearn_runtime.checkpoint import Checkpoints
from omnilearn_runtime.codec import pack
torch.set_num_threads(1)
checkpoints = Checkpoints(Path(sys.argv[1]), keep=3)
for generation in (1, 2, 3, 4, 5):
    writer = os.fork()
    if writer:
        os.waitpid(writer, 0)
        print("end", flush=True)
        continue
    print(os.getpid(), flush=True)
    for number in range(1, 10**6):
        weight = torch.full((2_000_000,), float(number))
        checkpoints.save(generation, number, pack({"weight": weight, "number": number}))
        print(number, flush=True)
"""


def test_a_killed_writer_leaves_nothing_half(checkpoints: Checkpoints) -> None:
    command = [sys.executable, "-c", WRITERS, str(checkpoints.folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writers:
        assert writers.stdout is not None
        for generation in (1, 2, 3, 4, 5):
            writer, saved = int(writers.stdout.readline()), int(writers.stdout.readline())
            time.sleep(0.003 * generation)  # to be killed at various places of the next save
            os.kill(writer, signal.SIGKILL)
            while (line := writers.stdout.readline()) != "end\n":
                saved = int(line)
            loaded = checkpoints.newest()
            assert loaded is not None
            tree = unpack(loaded.packed)
            assert saved <= loaded.round == tree["number"] <= saved + 1
            assert bool((tree["weight"] == tree["number"]).all())
    checkpoints.save(6, 1, state(1))
    assert not list(checkpoints.folder.glob(".*")), "temporary files of the dead are removed"


def test_the_temporary_file_of_a_living_writer_stays(checkpoints: Checkpoints) -> None:
    draft = checkpoints.draft(1, 1, state(1))
    checkpoints.save(1, 2, state(2))
    assert draft.path.exists()
    assert checkpoints.publish(draft)
    assert number_of(checkpoints) == 2


def settled(writer: Writer, seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while writer.busy and time.monotonic() < deadline:
        time.sleep(0.005)
    return not writer.busy


class Slow(Checkpoints):
    """Checkpoints whose drafts wait until they are let go."""

    gate: threading.Event

    def draft(self, generation: int, round: int, packed: Packed) -> Draft:  # noqa: A002 - the protocol's word
        assert self.gate.wait(5)
        return super().draft(generation, round, packed)


@pytest.fixture
def slow(tmp_path: Path) -> Slow:
    checkpoints = Slow(tmp_path / "saved", keep=2)
    checkpoints.gate = threading.Event()
    return checkpoints


def test_a_checkpoint_is_not_visible_before_it_is_confirmed(checkpoints: Checkpoints) -> None:
    writer = Writer(checkpoints)
    assert writer.begin(1, 7, state(7))
    writer.confirm(6)
    time.sleep(0.1)
    assert (writer.busy, checkpoints.newest()) == (True, None)
    writer.confirm(7)
    assert writer.finish(5)
    assert (writer.busy, number_of(checkpoints), writer.counts["written"]) == (False, 7, 1)


def test_a_checkpoint_may_be_confirmed_while_it_is_written(slow: Slow) -> None:
    writer = Writer(slow)
    writer.begin(1, 7, state(7))
    writer.confirm(8)
    assert not writer.finish(0.05)
    slow.gate.set()
    assert writer.finish(5)
    assert number_of(slow) == 7


def test_one_checkpoint_is_written_at_a_time(slow: Slow) -> None:
    writer = Writer(slow)
    assert writer.begin(1, 7, state(7))
    assert not writer.begin(1, 8, state(8))
    slow.gate.set()
    writer.confirm(7)
    assert writer.finish(5)
    assert number_of(slow) == 7


@pytest.mark.parametrize("early", [True, False], ids=["while it is written", "when it is written"])
def test_what_was_not_confirmed_is_dropped_in_the_end(slow: Slow, early: bool) -> None:
    writer = Writer(slow)
    if not early:
        slow.gate.set()
    writer.begin(1, 7, state(7))
    assert writer.finish(1)
    slow.gate.set()
    assert settled(writer)
    assert (names(slow.folder), writer.counts) == ([], {"dropped": 1})


def test_a_refused_checkpoint_is_counted(checkpoints: Checkpoints) -> None:
    checkpoints.save(2, 1, state(1))
    writer = Writer(checkpoints)
    writer.begin(1, 7, state(7))
    writer.confirm(7)
    assert writer.finish(5)
    assert writer.counts == {"refused": 1}


FULL = """
import logging, resource, sys, torch
from pathlib import Path
from omnilearn_runtime.checkpoint import Checkpoints, Writer
from omnilearn_runtime.codec import pack
logging.basicConfig(format="%(message)s")
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
writer = Writer(Checkpoints(Path(sys.argv[1]), keep=1))
for number, size in ((1, 10), (2, 1_000_000), (3, 10)):
    writer.begin(1, number, pack(torch.ones(size)))
    writer.confirm(number)
    assert writer.finish(10)
assert writer.counts == {"written": 2, "failed": 1}, writer.counts
try:
    Checkpoints(Path(sys.argv[1]), keep=1).save(1, 4, pack(torch.ones(1_000_000)))
except OSError:
    pass
"""


def test_a_disk_without_room_costs_one_checkpoint_and_one_sentence(checkpoints: Checkpoints) -> None:
    command = [sys.executable, "-c", FULL, str(checkpoints.folder)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert run.stderr.startswith("The checkpoint of round 2 could not be written: OSError: ")
    assert run.stderr.count("\n") == 1
    assert names(checkpoints.folder) == ["checkpoint-0000000001-000000000003.pt"]


def test_a_folder_that_cannot_be_made_does_not_stop_training(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    writer = Writer(Checkpoints(tmp_path / "file" / "saved", keep=1))
    with caplog.at_level(logging.ERROR):
        assert writer.begin(1, 1, state(1))
        assert settled(writer)
    writer.confirm(1)
    assert writer.counts == {"failed": 1}
    assert "The checkpoint of round 1 could not be written" in caplog.text
