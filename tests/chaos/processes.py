"""The workers' processes as the driver sees them: started by the zygote, watched by signals and by their traces."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_READY_SECONDS = 180.0
_END_SECONDS = 10.0
_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Commit:
    """A line of a trace, as far as the driver looks at it."""

    round: int
    epoch: int
    time: float
    generation: int
    members: tuple[str, ...]
    busy: float
    """Seconds of the round in which this worker computed and loaded."""

    step: float


@dataclass(eq=False)
class Running:
    """One attempt of a worker."""

    name: str
    attempt: int
    pid: int
    trace: Path
    log: Path
    code: int | None = None
    ended: float | None = None
    stopped: float | None = None
    commits: list[Commit] = field(default_factory=list)
    _read: int = 0

    @property
    def alive(self) -> bool:
        """True until it has ended; a frozen one lives."""
        return self.code is None

    @property
    def down(self) -> float | None:
        """When it ended or was frozen."""
        return self.ended if self.ended is not None else self.stopped

    @property
    def last(self) -> Commit | None:
        """Its newest commit."""
        self.look()
        return self.commits[-1] if self.commits else None

    def since(self, time: float) -> list[Commit]:
        """Return its commits after a time."""
        self.look()
        return [commit for commit in self.commits if commit.time > time]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if it still runs."""
        if self.alive:
            if number is signal.SIGCONT:
                self.stopped = None
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def look(self) -> None:
        """Read what its trace has got since the last look; what is long past is forgotten."""
        if not self.trace.exists():
            return
        with self.trace.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        self.commits = [*self.commits[-500:], *(_commit(json.loads(line)) for line in whole.splitlines())]

    def threads(self) -> int:
        """Return how many threads it has."""
        return len(list(Path(f"/proc/{self.pid}/task").iterdir()))

    def sockets(self) -> int:
        """Return how many sockets it has open."""
        count = 0
        for handle in Path(f"/proc/{self.pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                count += str(handle.readlink()).startswith("socket:")
        return count

    def memory(self) -> float:
        """Return its resident memory in MiB, without what it shares with the zygote."""
        _, resident, shared = Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[:3]
        return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE") / 2**20


def _commit(line: dict[str, Any]) -> Commit:
    seconds = line["seconds"]
    return Commit(
        line["round"],
        line["epoch"],
        line["time"],
        int(line["generation"].partition(".")[0]),
        tuple(line["members"]),
        seconds["compute"] + seconds["load"],
        seconds["step"],
    )


class Zygote:
    """The process that forks workers. Whatever becomes of the test, its workers end with it."""

    def __init__(self, folder: Path, work: str = "chaos.work") -> None:
        self.folder = folder
        """Where the next workers leave their logs and traces."""

        self._work = work
        self._ids = itertools.count()
        self._process: Process | None = None
        self._watching: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._starting: dict[int, asyncio.Future[int]] = {}
        self._running: dict[int, Running] = {}

    async def start(self) -> None:
        """Import torch once."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(_ROOT / "tests"),
            **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
        }
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "chaos.zygote", self._work, stdin=PIPE, stdout=PIPE, env=environment, cwd=_ROOT
        )
        self._watching = asyncio.create_task(self._watch(self._process))
        await asyncio.wait_for(self._ready.wait(), _READY_SECONDS)

    async def fork(
        self, name: str, attempt: int, environment: Mapping[str, str], network: str | None = None
    ) -> Running:
        """Start a worker, in a network of its own if one is named."""
        assert self._process is not None
        assert self._process.stdin is not None
        number = next(self._ids)
        log, trace = (self.folder / f"{kind}/{name}-{attempt}.{kind}" for kind in ("log", "jsonl"))
        for file in (log, trace):
            file.parent.mkdir(exist_ok=True)
        given = {"OMNILEARN_TRACE_HASHES": "1", **environment, "OMNILEARN_TRACE_FILE": str(trace)}
        request = {"id": number, "folder": str(self.folder), "log": str(log), "environment": given, "network": network}
        started = self._starting[number] = asyncio.get_running_loop().create_future()
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        pid = await asyncio.wait_for(started, _READY_SECONDS)
        running = self._running[pid] = Running(name, attempt, pid, trace, log)
        return running

    async def _watch(self, process: Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            said = json.loads(line)
            if "ready" in said:
                assert said["threads"] == 1, "the zygote has threads: forking it is not safe"
                self._ready.set()
            elif "started" in said:
                self._starting.pop(said["started"]).set_result(said["pid"])
            else:
                # A process may end before `fork` has heard that it began.
                asyncio.get_running_loop().call_soon(self._note, said)

    def _note(self, said: dict[str, Any]) -> None:
        running = self._running.get(said["pid"])
        if running is None:
            return
        if "stopped" in said:
            running.stopped = said["time"]
        else:
            running.code, running.ended = said["code"], said["time"]

    async def stop(self) -> None:
        """End the zygote and all its workers."""
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _END_SECONDS)
        if process.returncode is None:
            process.kill()
            await process.wait()
        if self._watching is not None:
            await self._watching
