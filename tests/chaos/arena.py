"""A job that trains while it is being hurt: a coordinator in this process, workers from the zygote, and waiting."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from omnilearn_coordinator.credentials import Tokens
from omnilearn_coordinator.membership.actions import Happening
from omnilearn_coordinator.service import Coordinator
from omnilearn_coordinator.settings import JobSettings
from omnilearn_coordinator.view import JobView, Phase
from omnilearn_core.api.names import START_ANEW_EXIT
from omnilearn_core.api.strategy import Strategy

from .processes import Running, Zygote

JOB, GROUP = "chaos", "w"
HOST = "127.0.0.1"
SILENT_AFTER = 3.0
JOIN_LIMIT = 30.0
CHECKPOINT_SECONDS = 1.0
GLOBAL_BATCH = 32
_GRACE_SECONDS = 10.0
_POLL_SECONDS = 0.01
_START_LIMIT = 30.0
_DUMP_SECONDS = 1.0


def names_of(size: int, groups: str = GROUP) -> list[str]:
    """Return the names of so many workers, which belong to these groups in turn, one letter each."""
    return [f"{JOB}-{groups[index % len(groups)]}-{index}" for index in range(size)]


def _groups(strategy: Strategy, size: int) -> str:
    """Return the groups that a strategy needs: two, or one for the server, which is a letter here, and the rest."""
    return "ab" if strategy.has_teams else (strategy.server_group or GROUP) + GROUP * (size - 1)


class StuckError(AssertionError):
    """Something did not happen within its limit; the sentence says what, and where to look."""


class Arena:
    """The job, its workers by name, and what has happened."""

    def __init__(
        self,
        folder: Path,
        size: int,
        host: str = HOST,
        networks: dict[str, str] | None = None,
        strategy: Strategy | None = None,
    ) -> None:
        self.folder, self.size, self.host = folder, size, host
        self.names = names_of(size, _groups(strategy or Strategy(), size))
        self.workers: dict[str, Running] = {}
        self.networks = networks or {}
        self.addresses = dict.fromkeys(self.names, host)
        self._attempts: dict[str, int] = {}
        self._tokens = Tokens()
        self._zygote = Zygote(folder)
        self.coordinator: Coordinator | None = None
        self._term = 0
        self._port = 0
        self._settings = JobSettings(
            name=JOB, global_batch=GLOBAL_BATCH, fewest=1, most=size, expected=size, join_timeout=4.0,
            silent_after=SILENT_AFTER, start_wait=3.0, tail_percent=30 if strategy is None else 0,
            strategy=strategy or Strategy(),
        )  # fmt: skip
        self._diary = (folder / "diary.txt").open("a", buffering=1, encoding="utf-8")

    async def start(self) -> None:
        """Start everything, and wait until all workers train together."""
        await self._zygote.start()
        await self.start_coordinator()
        for name in self.names:
            await self.spawn(name)
        await self.until(self.whole, _START_LIMIT, "all workers train together")

    async def stop(self) -> None:
        """End everything."""
        await self._zygote.stop()
        await self.stop_coordinator()
        self._diary.close()

    def note(self, sentence: str) -> None:
        """Write something down, with the time."""
        self._diary.write(f"{time.time():.3f} {sentence}\n")

    # The coordinator

    async def start_coordinator(self) -> None:
        """Start a coordinator with a higher term than the last."""
        self._term += 1
        self.coordinator = Coordinator(self._settings, self._tokens, term=self._term, on_happening=self._happened)
        self._port = await self.coordinator.start(self.host, self._port)

    async def stop_coordinator(self) -> None:
        """Stop it as a crash would."""
        coordinator, self.coordinator = self.coordinator, None
        if coordinator is not None:
            await coordinator.stop()

    def _happened(self, happening: Happening) -> None:
        self.note(f"{happening.kind}: {happening.sentence}")

    def cut(self, name: str) -> None:
        """Close a worker's connection without a word."""
        assert self.coordinator is not None
        record = self.coordinator._driver.state.workers.get(name)
        if record is not None:
            self.coordinator.disconnect(record.connection)

    @property
    def view(self) -> JobView | None:
        """How the coordinator sees the job."""
        return None if self.coordinator is None else self.coordinator.snapshot()

    # Workers

    async def spawn(self, name: str, faults: str = "") -> Running:
        """Start the next attempt of a worker."""
        attempt = self._attempts[name] = self._attempts.get(name, -1) + 1
        token = self.folder / f"{name}-{attempt}.token"
        token.write_text(self._tokens.issue(name, attempt), encoding="ascii")
        environment = {
            "OMNILEARN_JOB": JOB,
            "OMNILEARN_GROUP": name.split("-")[1],
            "OMNILEARN_WORKER": name,
            "OMNILEARN_ATTEMPT": str(attempt),
            "OMNILEARN_DEVICE": "cpu",
            "OMNILEARN_COORDINATOR": f"ws://{self.host}:{self._port}",
            "OMNILEARN_TOKEN_FILE": str(token),
            "OMNILEARN_ADDRESS": self.addresses[name],
            "OMNILEARN_CHECKPOINT_DIR": str(self.folder / "checkpoints"),
            "OMNILEARN_CHECKPOINT_SECONDS": str(CHECKPOINT_SECONDS),
            "OMNILEARN_GRACE_SECONDS": str(_GRACE_SECONDS),
            "OMNILEARN_FAULTS": faults,
        }
        running = await self._zygote.fork(name, attempt, environment, self.networks.get(name))
        self.workers[name] = running
        self.note(f"started {name} attempt {attempt} pid {running.pid} {faults}")
        return running

    def arm(self, worker: Running, faults: str) -> None:
        """Have faults happen in a process that runs already."""
        (self.folder / f"{worker.name}.faults").write_text(faults, encoding="ascii")
        worker.signal(signal.SIGUSR2)

    def ranks(self) -> list[Running]:
        """Return the workers that train, by rank."""
        commits = [(worker.last, worker) for worker in self.workers.values() if worker.alive]
        newest = max((commit for commit, _ in commits if commit), key=lambda commit: commit.generation)
        return [self.workers[name] for name in newest.members if self.workers[name].alive]

    def computing(self) -> list[Running]:
        """Return the workers that compute gradients: all but a server of its own."""
        server = self._settings.strategy.server_group
        return [worker for name, worker in self.workers.items() if server is None or f"-{server}-" not in name]

    def generation(self) -> int:
        """Return the highest generation that anybody has committed a round in."""
        return max((w.last.generation for w in self.workers.values() if w.last), default=0)

    def whole(self) -> bool:
        """Tell whether all workers train together, and nobody is on the way in or out."""
        lasts = [worker.last for worker in self.workers.values() if worker.alive and worker.stopped is None]
        view = self.view
        return (
            view is not None
            and view.phase is Phase.RUNNING
            and len(view.members) == self.size
            and all(self.workers[m.worker].attempt == m.attempt for m in view.members)
            and len(lasts) == self.size
            and all(last is not None and last.generation == view.generation for last in lasts)
        )

    # Waiting

    async def until(self, true: Callable[[], bool], seconds: float, what: str) -> float:
        """Wait for something; return how long it took. Raises StuckError, with everybody's stacks in the logs."""
        begun = time.monotonic()
        while not true():
            await self._start_anew()
            if time.monotonic() - begun > seconds:
                await self._dump()
                raise StuckError(f"not within {seconds:g} s: {what}; see {self.folder}/diary.txt and log/")
            await asyncio.sleep(_POLL_SECONDS)
        return time.monotonic() - begun

    async def _start_anew(self) -> None:
        """Start those again whose script has to, because the job went on to another epoch without them."""
        for worker in list(self.workers.values()):
            if worker.code == START_ANEW_EXIT:
                await self.spawn(worker.name)

    async def until_whole(self, what: str) -> float:
        """Wait until all workers train together again."""
        return await self.until(self.whole, JOIN_LIMIT, f"all workers train together again after: {what}")

    async def _dump(self) -> None:
        for worker in self.workers.values():
            self.note(f"{worker.name}-{worker.attempt} code {worker.code} stopped {worker.stopped} last {worker.last}")
            worker.signal(signal.SIGUSR1)
        self.note(f"view {self.view}")
        if self.coordinator is not None:
            self.note(f"state {self.coordinator._driver.state}")
        await asyncio.sleep(_DUMP_SECONDS)

    async def pause(self, chance: random.Random, seconds: float) -> None:
        """Let the job train for a while, so that a fault comes at any moment of a step."""
        await asyncio.sleep(chance.uniform(0, seconds))

    async def finish(self, wounded: Iterable[str] = ()) -> int:
        """Let the job come to its end; return how many epochs it had. The wounded die on the way."""
        epoch = max(w.last.epoch for w in self.workers.values() if w.last) + 2
        for name in wounded:
            self.arm(self.workers[name], "finishing:kill")
        last = self.folder / "last-epoch.new"
        last.write_text(str(epoch), encoding="ascii")
        last.rename(self.folder / "last-epoch")
        await self.until(lambda: all(not w.alive for w in self.workers.values()), 60.0, "all workers have finished")
        return epoch
