"""A coordinator in a process of its own, pinned to one core, for `benchmarks.coordinator`; and what it uses."""

from __future__ import annotations

import asyncio
import cProfile
import os
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from omnilearn_coordinator.credentials import Tokens
from omnilearn_coordinator.service import Coordinator
from omnilearn_coordinator.settings import JobSettings

HOST = "127.0.0.1"
_START_SECONDS = 60.0
_STOP_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Order:
    """What to serve, for whom, and on which core; a profile slows it down."""

    settings: JobSettings
    workers: tuple[str, ...]
    core: int
    profile: Path | None = None


@dataclass(frozen=True, slots=True)
class Served:
    """Where a coordinator listens, with which tokens, and in which process."""

    port: int
    tokens: dict[str, str]
    pid: int


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process has used until now."""

    cpu_seconds: float
    waited_seconds: float
    """How long it could have run, but others had its core."""

    memory: int
    peak_memory: int


@contextmanager
def served(order: Order) -> Iterator[Served]:
    """Serve a coordinator until the caller is through."""
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(order, there), daemon=True)
    process.start()
    there.close()
    try:
        if not here.poll(_START_SECONDS):
            raise TimeoutError(f"the coordinator did not start within {_START_SECONDS:g} s: look at its output above")
        port, tokens = here.recv()
        yield Served(port, tokens, process.pid or 0)
    finally:
        here.close()
        process.join(_STOP_SECONDS)
        if process.is_alive():
            process.kill()


def usage_of(pid: int) -> Usage:
    """Return what a process has used, as the kernel counts it."""
    folder = Path(f"/proc/{pid}")
    return usage_from((folder / "schedstat").read_text(), (folder / "status").read_text(encoding="utf-8"))


def usage_from(schedstat: str, status: str) -> Usage:
    """Return what /proc/<pid>/schedstat (of the only thread that matters, the first) and /proc/<pid>/status say."""
    ran, waited, _ = (int(field) / 1e9 for field in schedstat.split())
    rows = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    memory, peak = (int(rows[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
    return Usage(ran, waited, memory, peak)


def pin(cores: Sequence[int]) -> None:
    """Keep this process on some cores, and let it open a socket for every worker."""
    os.sched_setaffinity(0, cores)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _serve(order: Order, pipe: Connection) -> None:
    pin([order.core])
    profile = cProfile.Profile() if order.profile else None
    if profile:
        profile.enable()
    asyncio.run(_until_closed(order, pipe))
    if profile and order.profile:
        profile.disable()
        profile.dump_stats(order.profile)


async def _until_closed(order: Order, pipe: Connection) -> None:
    tokens = Tokens()
    issued = {worker: tokens.issue(worker, 0) for worker in order.workers}
    coordinator = Coordinator(order.settings, tokens)
    coordinator.hear_everything()
    port = await coordinator.start(HOST, 0)
    closed = asyncio.Event()
    asyncio.get_running_loop().add_reader(pipe.fileno(), closed.set)
    pipe.send((port, issued))
    await closed.wait()
    asyncio.get_running_loop().remove_reader(pipe.fileno())
    await coordinator.stop()
