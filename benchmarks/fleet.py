"""A fleet of worker processes, each in a cgroup with its own CPU limit, and a coordinator for their jobs."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from omnilearn_cli.local.limits import open_limits
from omnilearn_coordinator.credentials import Tokens
from omnilearn_coordinator.service import Coordinator
from omnilearn_coordinator.settings import JobSettings
from omnilearn_coordinator.view import JobView

_JOB = "bench"


class Worker:
    """One process and the pipe to it."""

    def __init__(self, name: str, procs: Path | None) -> None:
        self.name = name
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "benchmarks.fleet_worker"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, bufsize=1
        )
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("a worker was started without pipes")
        self._input, self._output = self.process.stdin, self.process.stdout
        if procs is not None:
            procs.write_text(str(self.process.pid), encoding="ascii")

    def tell(self, order: dict[str, Any]) -> None:
        """Give an order."""
        self._input.write(json.dumps(order) + "\n")

    def answer(self) -> dict[str, Any]:
        """Return the answer to the last order."""
        while line := self._output.readline():
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        raise RuntimeError(f"{self.name} ended with {self.process.wait()}: its last words are above")


class Fleet:
    """Workers alike but for their CPU limits."""

    def __init__(self, size: int) -> None:
        self.names = [f"{_JOB}-w-{index}" for index in range(size)]
        self._folders: list[Path] = []
        self._limits = open_limits(os.getpid())
        if not self._limits.enforced:
            raise SystemExit("this benchmark needs CPU limits: run it as root, or where a cgroup can be made")
        self._workers = [Worker(name, self._limits.make(name, 1.0)) for name in self.names]
        for worker in self._workers:
            worker.answer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.process.kill()
            worker.process.wait()
            self._limits.remove(worker.name)
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)

    def limit(self, cpus: Sequence[float]) -> None:
        """Give every worker its CPUs."""
        for name, each in zip(self.names, cpus, strict=True):
            self._limits.change(name, each)

    def order(self, orders: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Give each worker an order at the same time; return their answers."""
        for worker, order in zip(self._workers, orders, strict=True):
            worker.tell(order)
        return [worker.answer() for worker in self._workers]

    def solo(self, batches: Sequence[int], seconds: float, *, together: bool) -> list[float]:
        """Return everybody's samples per second by itself: all at the same time, or one after the other."""
        orders = [{"do": "solo", "batch": batch, "seconds": seconds} for batch in batches]
        if together:
            return [_speed(answer) for answer in self.order(orders)]
        speeds = []
        for worker, order in zip(self._workers, orders, strict=True):
            worker.tell(order)
            speeds.append(_speed(worker.answer()))
        return speeds

    def ddp(self, batch: int, steps: int) -> list[float]:
        """Train with DistributedDataParallel; return when each step ended."""
        world, port = len(self.names), _free_port()
        share = {"do": "ddp", "world": world, "port": port, "batch": batch // world, "steps": steps}
        return list(self.order([share | {"rank": rank} for rank in range(world)])[0]["times"][1:])

    def joint(
        self, settings: JobSettings, steps: int, watch: Callable[[JobView], None] = lambda _: None
    ) -> tuple[list[float], list[Path]]:
        """Train in a job; return when each step ended, and the workers' traces."""
        folder = Path(tempfile.mkdtemp(prefix="omnilearn-fleet-"))
        self._folders.append(folder)
        traces = [folder / f"{name}.jsonl" for name in self.names]
        with Desk(settings) as desk, ThreadPoolExecutor(1) as pool:
            base = {"do": "joint", "job": settings.name, "steps": steps}
            orders = [
                base | {"worker": name, "trace": str(trace), **desk.place(name)}
                for name, trace in zip(self.names, traces, strict=True)
            ]
            answers = pool.submit(self.order, orders)
            while not answers.done():
                time.sleep(0.02)
                watch(desk.view())
            times = max((answer["times"] for answer in answers.result()), key=len)
            return list(times), traces


def settings_for(names: Sequence[str], way: tuple[str, int | None], batch: int) -> JobSettings:
    """Return the settings of a job of these workers, by a law and the percent that it leaves to whoever is early."""
    law, percent = way
    settings = JobSettings(name=_JOB, global_batch=batch, law=law, fewest=len(names), most=len(names))
    return replace(settings, tail_percent=percent, expected=len(names))


class Desk:
    """A coordinator in a thread of its own."""

    def __init__(self, settings: JobSettings) -> None:
        self._tokens = Tokens()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._coordinator = Coordinator(settings, self._tokens)
        self._port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._port = self._wait(self._coordinator.start("127.0.0.1", 0))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._wait(self._coordinator.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def place(self, worker: str) -> dict[str, Any]:
        """Return where a worker finds this coordinator, and its credential."""
        return {"coordinator": f"ws://127.0.0.1:{self._port}", "token": self._tokens.issue(worker, 0)}

    def view(self) -> JobView:
        """Return how the job stands."""
        view: JobView = self._wait(self._look())
        return view

    async def _look(self) -> JobView:
        return self._coordinator.snapshot()

    def _wait(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)


def _speed(answer: dict[str, Any]) -> float:
    times = answer["times"]
    # The first steps fill caches and memory pools.
    first = min(2, len(times) - 2)
    return float(answer["batch"] * (len(times) - 1 - first) / (times[-1] - times[first]))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
