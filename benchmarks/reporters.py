"""Workers that only talk, for jobs in a cluster: one for each pod that runs, with a token as its own would be.

They speak the real protocol over TLS: join, build, enter, report as often as the replies say, and come back to the
generation that they are in when the operator is replaced. All of them live in one process.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import ssl
import time
from collections import deque

from omnilearn_core.api import names
from omnilearn_core.api.frames import TO_WORKER, to_frame
from omnilearn_core.api.messages import Assignment, Join

from . import frames
from .cluster_api import Cluster, Manifest
from .load import Fleet, Line
from .serving import HOST

_FIRST_BACK_OFF, _LONGEST_BACK_OFF = 0.05, 2.0
_INTERVAL = re.compile(rb'"reportSeconds":([0-9.]+)')
_DIALS_AT_ONCE = 256
_OPEN_SECONDS = 10.0
_NUMBERS = itertools.count()


class Where:
    """Where the coordinator is, and how it is trusted."""

    def __init__(self, host: str, port: int, name: str, authorities: str) -> None:
        self.host, self.port, self.name = host, port, name
        self.tls = ssl.create_default_context(cadata=authorities)
        self.dialling = asyncio.Semaphore(_DIALS_AT_ONCE)


def _own_address() -> str:
    """Return another address of this machine each time: pods have their own, and the operator's limits are for each."""
    number = next(_NUMBERS)
    return f"127.{1 + number // 250 % 250}.{number % 250}.1"


class Reporter(Line):
    """One worker; it dials anew until it is let go."""

    def __init__(self, crew: Crew, name: str, token: str, where: Where) -> None:
        path = names.namespace_path(crew.namespace) + names.worker_path(crew.job, name)
        super().__init__(crew, len(crew.lines), name, frames.upgrade(path, where.name, token))
        self.crew, self.where = crew, where
        self._from = (_own_address(), 0) if where.host == HOST else None
        self.over = False
        self.answered = 0
        """Replies on this connection."""

        self._interval = 1.0
        self._timer: asyncio.TimerHandle | None = None
        self._dialler = asyncio.create_task(self._dial_for_ever())
        self._lost = asyncio.Event()

    async def _dial_for_ever(self) -> None:
        loop, back_off = asyncio.get_running_loop(), _FIRST_BACK_OFF
        while not self.over:
            self._lost.clear()
            self.begin_anew()
            try:
                async with self.where.dialling, asyncio.timeout(_OPEN_SECONDS):
                    await loop.create_connection(
                        lambda: self, self.where.host, self.where.port,
                        ssl=self.where.tls, server_hostname=self.where.name, local_addr=self._from,
                    )  # fmt: skip
                await self._lost.wait()
            except (OSError, TimeoutError, ssl.SSLError):
                pass
            if self.answered:
                back_off = _FIRST_BACK_OFF
            await asyncio.sleep(back_off * self.crew.random.uniform(0.5, 1.0))
            back_off = min(2 * back_off, _LONGEST_BACK_OFF)

    def connection_lost(self, error: Exception | None) -> None:
        """Dial anew."""
        self.open = False
        self._rest()
        self._lost.set()

    def told(self, payload: bytes) -> None:
        """Take in the pause between reports, if a message names one."""
        found = _INTERVAL.search(payload)
        if found:
            self._interval = float(found[1])

    def begin_to_report(self) -> None:
        """Report from now on, each worker at its own moments."""
        if self._timer is None:
            pause = self._interval * self.crew.random.random()
            self._timer = asyncio.get_running_loop().call_later(pause, self._report_on)

    def _report_on(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._interval, self._report_on)
        if self.entered and self.crew.plan is not None:
            if self is self.crew.lead:  # it also gets what it has not asked for
                self.sent.clear()
            self.report()

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def leave(self) -> None:
        """Be gone, as a process that is killed."""
        self.over = True
        self._rest()
        self.close()
        self._lost.set()
        self._dialler.cancel()


class Crew(Fleet):
    """The workers of one job. What they compute takes no time, but what they say they have measured is plausible."""

    def __init__(self, namespace: str, job: str, seed: int) -> None:
        super().__init__(job, {}, time.monotonic, seed)
        self.namespace, self.job = namespace, job
        self.reporters: dict[str, Reporter] = {}
        """By the name of the pod."""

        self.trouble = 0
        self._assignment: Assignment | None = None
        self._law_state: str | None = None

    @property
    def lead(self) -> Line:
        """Rank 0, as the newest generation says."""
        members = [] if self._assignment is None else self._assignment.members
        first = members[0].worker if members else ""
        return next((line for line in self.lines if line.name == first), self.lines[0])

    def add(self, pod: str, worker: str, token: str, where: Where) -> None:
        """Have a worker for a pod."""
        made = Reporter(self, worker, token, where)
        self.reporters[pod] = made
        self.lines.append(made)

    def lose(self, pod: str) -> None:  # type: ignore[override]
        """Let the worker of a pod go."""
        gone = self.reporters.pop(pod, None)
        if gone is not None:
            gone.leave()
            self.lines.remove(gone)

    def fail(self, why: str) -> None:
        """Count what went wrong: who is refused dials anew."""
        self.trouble += 1

    def heard(self, line: Line, payload: bytes) -> None:
        """Take in one message."""
        if not isinstance(line, Reporter):
            raise TypeError("only reporters are in a crew")
        line.told(payload)
        if payload.startswith(b'{"type":"welcome"'):
            line.say(to_frame(self._join(line)).encode())
            if line.entered:
                line.begin_to_report()
        elif payload.startswith(b'{"type":"release"'):
            line.over = True
            line.close()
        elif payload.startswith((b'{"type":"assignment"', b'{"type":"reply"')):
            line.answered += 1
            super().heard(line, payload)
            line.begin_to_report()
        else:
            self.trouble += 1

    def _join(self, line: Reporter) -> Join:
        plain = Join(device="cpu", address=HOST, port=4000 + line.index, last_generation=self.number)
        known = self._assignment
        if known is None or not line.entered or known.generation.number != self.number:
            return plain
        kept = self._law_state if line is self.lead else None
        there = {"round": 1, "generation": known.generation, "members": known.members, "plan": self.plan}
        return plain.model_copy(update=there | {"law_state": kept})

    def _assigned(self, line: Line, payload: bytes) -> None:
        before = self.number
        super()._assigned(line, payload)
        if self.number != before:
            found = TO_WORKER.validate_json(payload)
            self._assignment = found if isinstance(found, Assignment) else None
            for each in self.lines:
                each.sent.clear()

    def _replied(self, line: Line, payload: bytes) -> None:
        if line is self.lead and b'"lawState"' in payload:
            self._law_state = json.loads(payload).get("lawState")
        super()._replied(line, payload)


class Everybody:
    """The workers of all jobs of a namespace; they come and go with their pods."""

    def __init__(self, cluster: Cluster, namespace: str, address: tuple[str, int], name: str) -> None:
        self._cluster, self._namespace, self._address, self._name = cluster, namespace, address, name
        self._where: Where | None = None
        self.crews: dict[str, Crew] = {}
        self.latencies: deque[float] | None = None
        """Where to note how long replies take; nowhere if None."""

        self._tasks: set[asyncio.Task[None]] = set()
        self._known: set[str] = set()

    @property
    def reporters(self) -> list[Reporter]:
        """All workers."""
        return [each for crew in self.crews.values() for each in crew.reporters.values()]

    async def follow(self) -> None:
        """Have a worker for each pod that runs, for ever."""
        try:
            async for kind, pod in self._cluster.changes("Pod", self._namespace, f"{names.MANAGED_LABEL}=true"):
                self._see(kind, pod)
        finally:
            for each in (*self._tasks, *(reporter._dialler for reporter in self.reporters)):
                each.cancel()

    def _see(self, kind: str, pod: Manifest) -> None:
        metadata = pod["metadata"]
        name, job = metadata["name"], metadata["labels"][names.JOB_LABEL]
        if kind == "DELETED" or "deletionTimestamp" in metadata:
            self._known.discard(metadata["uid"])
            crew = self.crews.get(job)
            if crew is not None:
                crew.lose(name)
                if not crew.reporters:
                    del self.crews[job]
        elif pod.get("status", {}).get("phase") == "Running" and metadata["uid"] not in self._known:
            self._known.add(metadata["uid"])
            task = asyncio.create_task(self._hire(job, pod))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _hire(self, job: str, pod: Manifest) -> None:
        token = await self._cluster.token(self._namespace, pod)
        if pod["metadata"]["uid"] not in self._known:
            return
        if self._where is None:  # every pod says the same
            authorities = pod["metadata"]["annotations"][names.AUTHORITIES_ANNOTATION]
            self._where = Where(*self._address, self._name, authorities)
        if job not in self.crews:
            self.crews[job] = Crew(self._namespace, job, seed=len(self.crews))
            self.crews[job].on_reply = self._on_reply
        self.crews[job].add(pod["metadata"]["name"], pod["metadata"]["labels"][names.WORKER_LABEL], token, self._where)

    def _on_reply(self, _: Line, seconds: float) -> None:
        if self.latencies is not None:
            self.latencies.append(seconds)
