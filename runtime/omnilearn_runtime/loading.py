"""Batches from a map-style dataset, prepared ahead by processes of their own. The session calls this.

The processes are forked, so the dataset need not be picklable, and tensors come back through shared memory. They die
with the thread that asked for the first batch, which should be the training thread.
"""

from __future__ import annotations

import copy
import ctypes
import os
import random
import signal
import socket
import stat
import time
import traceback
from collections.abc import Callable, MutableMapping, Sequence
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np
import torch
import torch.multiprocessing
from torch import Tensor
from torch.utils.data import IterableDataset, default_collate

from .managed import UnsuitableError

Indices = tuple[int, ...]
Collate = Callable[[list[Any]], Any]

# How often a waiting parent looks whether the children still live, and how long they may take to end.
_LOOK_SECONDS = 0.5
_END_SECONDS = 2.0
_PR_SET_PDEATHSIG = 1


class SampleError(RuntimeError):
    """The dataset or the collate function raised; the text has its traceback."""


@dataclass(frozen=True, slots=True)
class _Source:
    """Where batches come from: the same in the parent and in its children."""

    dataset: Any
    collate: Collate

    def batch(self, indices: Sequence[int]) -> Any:
        """Return the collated samples."""
        samples = self._samples(indices)
        try:
            return self.collate(samples)
        except Exception as error:
            raise SampleError(_sentence("the collate function failed for", indices, error)) from error

    def _samples(self, indices: Sequence[int]) -> list[Any]:
        asked: Sequence[int] = indices
        samples: list[Any] = []
        try:
            if callable(getattr(self.dataset, "__getitems__", None)):
                return list(self.dataset.__getitems__(list(indices)))
            for index in indices:
                asked = [index]
                samples.append(self.dataset[index])
        except Exception as error:
            raise SampleError(_sentence("the dataset failed for", asked, error)) from error
        return samples


def _sentence(what: str, indices: Sequence[int], error: Exception) -> str:
    named = f"sample {indices[0]}" if len(indices) == 1 else f"one of {len(indices)} samples from {indices[0]} on"
    trace = "".join(traceback.format_exception(error))
    return f"{what} {named}: {type(error).__name__}: {error}\n\n{trace}"


@dataclass(frozen=True, slots=True)
class _Failed:
    """What a child returns instead of an exception, which might not survive the way to its parent."""

    text: str


_source: _Source | None = None


def _become_child(source: _Source, seed: int, parent: int, numbers: Any) -> None:
    """Make a forked process fit to prepare batches: runs first in every child."""
    global _source  # noqa: PLW0603 - a child serves one dataset for its whole life
    _close_inherited_sockets()
    _die_with(parent)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(1)
    with numbers.get_lock():
        number = numbers.value
        numbers.value += 1
    _seed(seed, number)
    _source = source


def _close_inherited_sockets() -> None:
    """Let go of the parent's connections: held open here, they would hide the parent's death from its peers.

    Each is replaced by /dev/null, so that its number is not given to a file that the parent's objects would then close.
    """
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - numbers, not paths
        descriptor = int(name)
        try:
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                continue
            inherited = socket.socket(fileno=descriptor)
        except OSError:
            continue  # the listing's own descriptor, closed by now
        family = inherited.family
        inherited.detach()
        if family in (socket.AF_INET, socket.AF_INET6):
            os.dup2(null, descriptor, inheritable=False)
    os.close(null)


def _die_with(parent: int) -> None:
    """Ask the kernel to kill this process when its parent dies, and go at once if it has died already."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _seed(seed: int, number: int) -> None:
    """Give every child its own random numbers, the same in every run."""
    words = np.random.SeedSequence([abs(seed), number]).generate_state(4)
    torch.manual_seed(int(words[0]))
    random.seed(int(words[1]))
    np.random.seed(words[2:])


def _batch_in_child(indices: Indices) -> Any:
    if _source is None:
        return _Failed("a loading process was asked for a batch before it was made ready")
    try:
        return _source.batch(indices)
    except SampleError as error:
        return _Failed(str(error))


class Loader:
    """Prepares micro-batches ahead and moves them to a device; with no workers, computes them when they are taken."""

    def __init__(
        self,
        dataset: Any,
        *,
        collate: Collate | None = None,
        workers: int = 0,
        device: torch.device | str = "cpu",
        pin: bool = False,
        seed: int = 0,
    ) -> None:
        _check(dataset, workers)
        self._source = _Source(dataset, collate or default_collate)
        self._workers = workers
        self._device = torch.device(device)
        self._pin = pin
        self._seed = seed
        self._pool: ProcessPoolExecutor | None = None
        self._prepared: dict[Indices, Future[Any]] = {}

    def ahead(self, indices: Sequence[int]) -> None:
        """Ask for a micro-batch to be prepared, if there are processes to do so."""
        key = tuple(map(int, indices))
        if self._workers and key and key not in self._prepared:
            self._prepared[key] = self._submit(key)

    def take(self, indices: Sequence[int]) -> Any:
        """Return a micro-batch on the device, prepared or computed now."""
        key = tuple(map(int, indices))
        if not key:
            raise ValueError("a batch of no samples cannot be loaded: do not ask for one")
        self.ahead(key)
        batch = self._wait(self._prepared.pop(key)) if self._workers else self._source.batch(key)
        return move(batch, self._device, pin=self._pin)

    def forget(self) -> None:
        """Drop what was prepared, or is being prepared, and was not taken."""
        for future in self._prepared.values():
            future.cancel()
        self._prepared.clear()

    def close(self) -> None:
        """End the processes; a later `take` would start new ones."""
        self.forget()
        pool, self._pool = self._pool, None
        if pool is not None:
            _end(pool)

    def _submit(self, key: Indices) -> Future[Any]:
        try:
            if self._pool is None:
                self._pool = self._fork()
            return self._pool.submit(_batch_in_child, key)
        except BrokenProcessPool as error:
            raise self._lost() from error

    def _fork(self) -> ProcessPoolExecutor:
        context = torch.multiprocessing.get_context("fork")
        arguments = (self._source, self._seed, os.getpid(), context.Value("q", 0))
        return ProcessPoolExecutor(self._workers, context, initializer=_become_child, initargs=arguments)

    def _wait(self, future: Future[Any]) -> Any:
        """Return what a child has computed, however long it takes, unless a child dies."""
        while not future.done():
            # The pool itself notices a dead child, but not while half of a child's answer is in its pipe.
            dead = self._pool is not None and not all(process.is_alive() for process in _processes(self._pool))
            wait([future], timeout=_LOOK_SECONDS)
            if dead and not future.done():
                raise self._lost()
        try:
            result = future.result(timeout=0)
        except (BrokenProcessPool, CancelledError) as error:
            raise self._lost() from error
        if isinstance(result, _Failed):
            raise SampleError(result.text)
        return result

    def _lost(self) -> RuntimeError:
        self.close()
        return RuntimeError(
            f"one of {self._workers} loading processes died: it was killed, ran out of memory or of room in /dev/shm;"
            " give the pod more memory or load with fewer workers"
        )


def _check(dataset: Any, workers: int) -> None:
    if workers < 0:
        raise ValueError(f"cannot load with {workers} workers: 0 means in the training process itself")
    if isinstance(dataset, IterableDataset):
        sentence = "an IterableDataset cannot be split by sample: use a map-style dataset, with __len__ and __getitem__"
        raise UnsuitableError(sentence)
    missing = [name for name in ("__len__", "__getitem__") if not hasattr(dataset, name)]
    if missing:
        raise UnsuitableError(f"a {type(dataset).__name__} is no map-style dataset: it lacks {' and '.join(missing)}")


def _processes(pool: ProcessPoolExecutor) -> list[BaseProcess]:
    return list((pool._processes or {}).values())


def _end(pool: ProcessPoolExecutor) -> None:
    """End a pool and its processes, also those that are stuck in the dataset."""
    processes, answers = _processes(pool), getattr(pool, "_result_queue", None)
    pool.shutdown(wait=False, cancel_futures=True)
    deadline = time.monotonic() + _END_SECONDS
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
    for process in processes:
        process.kill()
        process.join(_END_SECONDS)
    # A child that died in the middle of an answer leaves the pool's thread waiting for the rest of it.
    if answers is not None:
        answers._writer.close()


def move(batch: Any, device: torch.device | str, *, pin: bool = False) -> Any:
    """Return a nested batch on a device; what is no tensor stays as it is."""
    target = torch.device(device)
    if isinstance(batch, Tensor):
        if target.type != "cuda":
            return batch.to(target)
        return (batch.pin_memory() if pin and batch.device.type == "cpu" else batch).to(target, non_blocking=True)
    if isinstance(batch, MutableMapping):
        moved = copy.copy(batch)
        moved.update({key: move(value, target, pin=pin) for key, value in batch.items()})
        return moved
    if isinstance(batch, tuple | list):
        items = [move(item, target, pin=pin) for item in batch]
        return type(batch)(*items) if hasattr(batch, "_fields") else type(batch)(items)
    return batch.to(target) if callable(getattr(batch, "to", None)) else batch
