"""A whole job inside one process: a coordinator in a thread, and every worker's session in a thread of its own.

Loading torch takes seconds, so histories of joins, deaths and leaves are played here; real processes have a few tests
of their own. A death is `Killed`, raised at a fault point: the connection and the sockets close without a word.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from omnilearn_coordinator.credentials import Tokens
from omnilearn_coordinator.membership.actions import Happening
from omnilearn_coordinator.service import Coordinator
from omnilearn_coordinator.settings import JobSettings
from omnilearn_core.api.messages import Plan
from omnilearn_runtime import Session, buckets, faults
from omnilearn_runtime.environment import Environment

_LIMIT_SECONDS = 60.0
# Even the small net of these tests has two, so that one can be on its way when somebody dies.
_BUCKET_BYTES = 160


class Killed(SystemExit):
    """A worker that dies; no `except Exception` stops it, and it says nothing to the coordinator."""


@dataclass(eq=False)
class Worker:
    """One worker: what its script gave, or how it ended."""

    name: str
    attempt: int = 0
    value: Any = None
    error: BaseException | None = None
    session: Session | None = None
    thread: threading.Thread = field(default_factory=threading.Thread)
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def code(self) -> Any:
        return self.error.code if isinstance(self.error, SystemExit) else None

    def leaves(self) -> None:
        """Have it told to go, as SIGTERM would."""
        assert self.session is not None
        self.session._exits._told_to_go(15, None)


Script = Callable[[Session, Worker], Any]


class Crew:
    """Runs scripts as the workers of one job."""

    def __init__(self, script: Script, count: int = 2, *, batch: int = 8, seed: int = 0, **settings: Any) -> None:
        self.script, self.count, self.seed, self.batch = script, count, seed, batch
        self.checkpoints: Path | None = None
        self.traces: Path | None = None
        self.groups = "w"
        """The group of the manifest of every worker, one letter each; those that are beyond have the last."""

        settings = {"law": "Uniform", "expected": count, "start_wait": 1.0, "min_per_worker": 0, **settings}
        self._settings = JobSettings(name="job", global_batch=batch, **settings)
        self._tokens = Tokens()
        self._loop = asyncio.new_event_loop()
        self._served = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.happenings: list[Happening] = []
        self.coordinator = Coordinator(self._settings, self._tokens, on_happening=self.happenings.append)
        self._port = 0
        self._patch = pytest.MonkeyPatch()
        self.workers: list[Worker] = []

    def __enter__(self) -> Self:
        self._served.start()
        self._port = self._call(self.coordinator.start("127.0.0.1", 0))
        self._patch.setattr(faults, "_do", _do)
        self._patch.setattr(buckets, "BUCKET_BYTES", min(_BUCKET_BYTES, buckets.BUCKET_BYTES))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._call(self.coordinator.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._served.join(5.0)
        self._loop.close()
        self._patch.undo()

    def _call(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(20.0)

    def start(self, number: int, faults: str = "", attempt: int = 0, script: Script | None = None) -> Worker:
        """Start a worker, with faults as `OMNILEARN_FAULTS` has them."""
        worker = Worker(f"job-{self.groups[min(number, len(self.groups) - 1)]}-{number}", attempt)
        environment = Environment(
            job="job",
            worker=worker.name,
            attempt=attempt,
            coordinator=f"ws://127.0.0.1:{self._port}",
            token=self._tokens.issue(worker.name, attempt),
            address="127.0.0.1",
            checkpoint_dir=self.checkpoints,
            trace_file=None if self.traces is None else self.traces / f"{worker.name}-{attempt}.jsonl",
            checkpoint_seconds=0.0,
            faults=faults,
        )
        self.workers.append(worker)
        worker.thread = threading.Thread(target=self._work, args=(worker, environment, script or self.script))
        worker.thread.daemon = True
        worker.thread.start()
        return worker

    def _work(self, worker: Worker, environment: Environment, script: Script) -> None:
        _CURRENT.worker = worker
        try:
            with Session(seed=self.seed, environment=environment) as session:
                worker.session = session
                worker.value = script(session, worker)
        except BaseException as error:  # noqa: BLE001 - kept for the test to see
            # Its frames hold the sockets of a dead worker open.
            worker.error = error.with_traceback(None)
            error.__context__ = None

    def wait(self, seconds: float = _LIMIT_SECONDS) -> list[Worker]:
        """Wait until all workers have ended."""
        limit = time.monotonic() + seconds
        for worker in self.workers:
            worker.thread.join(max(0.0, limit - time.monotonic()))
        alive = [worker.name for worker in self.workers if worker.thread.is_alive()]
        assert not alive, f"{alive} did not end within {seconds:g} s; so far: {self.told()}"
        return self.workers

    def told(self) -> list[str]:
        """Return what the coordinator has told people."""
        return [happening.sentence for happening in self.happenings]


_CURRENT = threading.local()


def _do(deed: faults.Deed, point: faults.Point) -> None:
    """Let a fault happen to the worker of this thread only."""
    if deed is faults.Deed.KILL:
        raise Killed(f"killed at {point}")
    if deed is faults.Deed.TERMINATE:
        _CURRENT.worker.leaves()
    elif deed is faults.Deed.RAISE:
        raise faults.InjectedError(f"fault injected at {point}")


def run(script: Script, count: int = 2, *, faults: Mapping[int, str] | None = None, **options: Any) -> list[Worker]:
    """Run a job of ``count`` workers to its end."""
    with Crew(script, count, **options) as crew:
        for number in range(count):
            crew.start(number, (faults or {}).get(number, ""))
        return crew.wait()


def values(workers: list[Worker]) -> list[Any]:
    """Return what the scripts gave; raises the first error."""
    for worker in workers:
        if worker.error is not None:
            raise worker.error
    return [worker.value for worker in workers]


def force_plan(session: Session, shares: list[int], tail: int = 0) -> None:
    """Have rank 0 announce these shares, scaled to as many members as there are, and leave a tail."""
    membership = session._membership
    group = membership.current
    if group is None or group.rank != 0 or group.size == 1:
        return
    scaled = [shares[rank % len(shares)] for rank in range(group.size - 1)]
    total = session.global_batch - tail
    while sum(scaled) > total:
        scaled = [each // 2 for each in scaled]
    whole = dict(zip(group.names, [*scaled, total - sum(scaled)], strict=True))
    version = max(membership.plan.version if membership.plan else 0, 10**6) + 1
    membership.plan = Plan(
        generation=group.id, version=version, global_batch=session.global_batch, shares=whole, tail=tail
    )


def await_joiner(session: Session, seconds: float = 10.0) -> bool:
    """Wait until this member is ready for a generation with a joiner, or has to leave its own.

    Steps take milliseconds here: without a wait the job would be over before anybody has joined.
    """
    membership, group = session._membership, session._membership.current
    if group is None:
        return False
    return membership.wait(lambda: membership.ready_tag(group) != 0 or membership.is_superseded(group), seconds)
