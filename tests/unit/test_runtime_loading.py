"""Batches come prepared, errors come back, and the children neither outlive nor hide their parent."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils.data import IterableDataset, TensorDataset

from omnilearn_runtime.loading import Loader, SampleError, move

DATASET = TensorDataset(torch.arange(20.0).reshape(10, 2), torch.arange(10))


class Mapped:
    """A dataset made of a function of the index."""

    def __init__(self, of: Callable[[int], Any]) -> None:
        self.of = of

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> Any:
        return self.of(index)


@pytest.fixture
def make() -> Iterator[Callable[..., Loader]]:
    loaders: list[Loader] = []

    def made(*args: Any, **options: Any) -> Loader:
        loaders.append(Loader(*args, **options))
        return loaders[-1]

    yield made
    for loader in loaders:
        loader.close()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("ahead", [False, True], ids=["computed now", "prepared"])
def test_a_batch_has_the_samples_asked_for(make: Callable[..., Loader], workers: int, ahead: bool) -> None:
    loader = make(DATASET, workers=workers)
    wanted = [[3, 1], [0], [9, 8, 7]]
    if ahead:
        for indices in wanted:
            loader.ahead(indices)
    for indices in reversed(wanted):
        x, y = loader.take(indices)
        assert (y.tolist(), x[:, 0].tolist()) == (indices, [2.0 * index for index in indices])


def test_what_was_asked_for_ahead_is_computed_once(make: Callable[..., Loader], tmp_path: Path) -> None:
    def sample(index: int) -> int:
        (tmp_path / f"{index}-{time.monotonic_ns()}").touch()
        return index

    loader = make(Mapped(sample), workers=1)
    for _ in range(2):
        loader.ahead([4])
    assert loader.take([4]).tolist() == [4]
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("workers", [0, 1])
def test_what_was_forgotten_can_be_asked_for_again(make: Callable[..., Loader], workers: int) -> None:
    loader = make(DATASET, workers=workers)
    for start in range(8):
        loader.ahead([start, start + 1])
    loader.forget()
    assert loader.take([0, 1])[1].tolist() == [0, 1]


def test_samples_are_fetched_together_if_the_dataset_can(make: Callable[..., Loader]) -> None:
    class Together(Mapped):
        def __getitems__(self, indices: list[int]) -> list[int]:
            return [10 * index for index in indices]

    assert make(Together(lambda index: index)).take([1, 2]).tolist() == [10, 20]


def test_samples_are_collated_as_told(make: Callable[..., Loader]) -> None:
    assert make(Mapped(str), collate="+".join, workers=1).take([1, 2]) == "1+2"


class Endless(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


@pytest.mark.parametrize(
    ("dataset", "sentence"),
    [
        (Endless(), "an IterableDataset cannot"),
        (iter([1]), "lacks __len__ and __getitem__"),
        ({1}, "lacks __getitem__"),
    ],
)
def test_what_is_no_map_style_dataset_is_refused(dataset: Any, sentence: str) -> None:
    with pytest.raises(TypeError, match=sentence):
        Loader(dataset)


def test_a_batch_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no samples"):
        Loader(DATASET).take([])


class UnpicklableError(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def fails_at_7(index: int) -> int:
    if index == 7:
        raise UnpicklableError(1, 2)
    return index


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_of_the_dataset_names_the_sample_and_the_place(make: Callable[..., Loader], workers: int) -> None:
    loader = make(Mapped(fails_at_7), workers=workers)
    with pytest.raises(SampleError, match="the dataset failed for sample 7: UnpicklableError: 1 and 2") as caught:
        loader.take([5, 7, 9])
    assert "in fails_at_7" in str(caught.value)
    assert loader.take([5]).tolist() == [5]


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_of_the_collate_function_says_so(make: Callable[..., Loader], workers: int) -> None:
    loader = make(Mapped(torch.zeros), workers=workers)
    with pytest.raises(SampleError, match="the collate function failed for one of 2 samples from 1 on"):
        loader.take([1, 2])


def test_a_batch_that_cannot_be_sent_is_an_error(make: Callable[..., Loader]) -> None:
    loader = make(Mapped(lambda index: index), workers=1, collate=lambda samples: lambda: samples)
    with pytest.raises(Exception, match=r"(?i)pickle"):
        loader.take([1])


def dies_at_7(index: int) -> int:
    if index == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return index


def test_a_child_that_dies_is_an_error_and_no_hang(make: Callable[..., Loader]) -> None:
    loader = make(Mapped(dies_at_7), workers=2)
    loader.ahead([1])
    with pytest.raises(RuntimeError, match="one of 2 loading processes died"):
        loader.take([7])
    assert loader.take([1]).tolist() == [1], "new processes are started"


def half_an_answer(index: int) -> int:
    """Write the length of a long answer and a part of it, then die, as a killed child may."""
    if index == 7:
        frame = sys._getframe()
        while "result_queue" not in frame.f_locals:
            assert frame.f_back is not None
            frame = frame.f_back
        os.write(frame.f_locals["result_queue"]._writer.fileno(), b"\x00\x10\x00\x00half")
        os.kill(os.getpid(), signal.SIGKILL)
    return index


def test_a_child_that_dies_in_the_middle_of_an_answer_is_an_error_and_no_hang(make: Callable[..., Loader]) -> None:
    loader = make(Mapped(half_an_answer), workers=2)
    with pytest.raises(RuntimeError, match="one of 2 loading processes died"):
        loader.take([7])
    assert loader.take([1]).tolist() == [1]


def test_a_child_that_is_stuck_is_ended(make: Callable[..., Loader], tmp_path: Path) -> None:
    def stuck(index: int) -> int:
        (tmp_path / str(os.getpid())).touch()
        time.sleep(60)
        return index

    loader = make(Mapped(stuck), workers=1)
    loader.ahead([1])
    while not list(tmp_path.iterdir()):
        time.sleep(0.01)
    loader.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int(next(tmp_path.iterdir()).name), 0)


def randomly(_: int) -> tuple[float, float, float]:
    return random.random(), np.random.random(), float(torch.rand(()))


def test_children_have_the_same_random_numbers_in_every_run(make: Callable[..., Loader]) -> None:
    first, again, other = (
        make(Mapped(randomly), workers=1, seed=seed, collate=list).take([0, 1]) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def habits(_: int) -> tuple[Any, ...]:
    return torch.get_num_threads(), signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)


def test_children_use_one_thread_and_leave_signals_to_the_parent(make: Callable[..., Loader]) -> None:
    assert make(Mapped(habits), workers=1, collate=list).take([0]) == [(1, signal.SIG_IGN, signal.SIG_DFL)]


def test_a_child_does_not_hold_the_connections_of_its_parent(make: Callable[..., Loader]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as own:
        peer, _ = server.accept()
        with peer:
            make(DATASET, workers=1).take([0])
            own.close()
            peer.settimeout(5)
            assert peer.recv(1) == b"", "the child lives, and yet the peer sees the end"


PARENT = """
import socket, sys, time, os
from omnilearn_runtime.loading import Loader
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
listening = socket.create_server(("127.0.0.1", 0))
class Dataset:
    def __len__(self): return 10
    def __getitem__(self, index): return os.getpid()
loader = Loader(Dataset(), workers=2)
child = int(loader.take([0])[0])
connection.sendall(f"{listening.getsockname()[1]} {child}\\n".encode())
time.sleep(60)
"""


def gone(pid: int) -> bool:
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return True


def test_the_peers_of_a_killed_parent_notice_at_once_and_its_children_die() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        with subprocess.Popen([sys.executable, "-c", PARENT, str(server.getsockname()[1])]) as parent:
            connection, _ = server.accept()
            with connection:
                connection.settimeout(30)
                port, child = map(int, connection.makefile().readline().split())
                killed = time.monotonic()
                parent.kill()
                assert connection.recv(1) == b""
                assert time.monotonic() - killed < 1
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    deadline = time.monotonic() + 5
    while not gone(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert gone(child)


class Named(NamedTuple):
    x: torch.Tensor
    rest: Any


def test_a_nested_batch_is_moved_whole_and_keeps_its_types() -> None:
    batch = Named(torch.ones(2), [OrderedDict(a=torch.ones(1), b="text"), (torch.ones(3), None)])
    moved = move(batch, "meta")
    assert isinstance(moved, Named)
    inner, pair = moved.rest
    assert (type(inner), type(pair), inner["b"], pair[1]) == (OrderedDict, tuple, "text", None)
    assert all(tensor.is_meta for tensor in (moved.x, inner["a"], pair[0]))
    assert not batch.rest[0]["a"].is_meta
