"""A thousand workers that only talk: they join, enter what they are assigned, and report; for `benchmarks.coordinator`.

They build no group and train nothing, but what they measure is plausible: each has a speed and a fixed cost of its
own, so the control law has as much to do as with real ones. A new plan reaches rank 0 and takes effect for all two
steps later, as it does on the control element.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence

from omnilearn_core.api.frames import TO_WORKER, to_frame
from omnilearn_core.api.messages import Assignment, Join, Plan, Reply
from omnilearn_core.api.names import worker_path

from . import frames

STEP_SECONDS = 0.4
_LIMIT_SECONDS = 120.0
_OPEN_AT_ONCE = 50
_GENERATION = re.compile(rb'"generation":(\{"number":(\d+),"nonce":"\w+"\})')
_PLAN = re.compile(rb'"plan":\{"generation":\{[^}]*\},"version":(\d+)')
_HEAD_BYTES = 400


class Line(asyncio.Protocol):
    """One worker and its connection."""

    def __init__(self, fleet: Fleet, index: int, name: str, request: bytes) -> None:
        self.fleet, self.index, self.name, self.request = fleet, index, name, request
        self.speed = fleet.random.uniform(40.0, 320.0)
        self.entered = b""
        """The generation that it has entered."""

        self.open = False
        self.sent: deque[float] = deque()
        self._transport: asyncio.Transport | None = None
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget the connection before this one."""
        self.sent.clear()
        self._buffer, self._upgraded = bytearray(), False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for a WebSocket."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - for the type checker
        self._transport, self.open = transport, True
        transport.write(self.request)

    def connection_lost(self, error: Exception | None) -> None:
        """Tell the fleet, unless it wanted that."""
        if self.open:
            self.open = False
            self.fleet.fail(f"the coordinator has closed the connection of {self.name} ({error or 'no error'})")

    def data_received(self, data: bytes) -> None:
        """Take in what the coordinator says."""
        self._buffer += data
        if not self._upgraded:
            head, end, rest = bytes(self._buffer).partition(b"\r\n\r\n")
            if not end:
                return
            if b" 101 " not in head.split(b"\r\n")[0]:
                self.fleet.fail(f"{self.name} was refused: {(head + rest)[:300]!r}")
                self.close()
                return
            self._upgraded, self._buffer = True, bytearray(rest)
        for kind, payload in frames.decode(self._buffer):
            if kind == frames.TEXT:
                self.fleet.heard(self, payload)
            elif kind == frames.PING:
                self.say(payload, frames.PONG)

    def say(self, payload: bytes, kind: int = frames.TEXT) -> None:
        """Send a frame."""
        if self._transport is not None and self.open:
            self._transport.write(frames.encode(payload, kind))

    def report(self) -> None:
        """Send a report and note when."""
        if self.open:
            frame = self.fleet.report_of(self)
            self.sent.append(self.fleet.clock())
            self.say(frame)

    def close(self) -> None:
        """Break the connection off, as the death of a process would."""
        self.open = False
        if self._transport is not None:
            self._transport.abort()


class Fleet:
    """All workers, and what they know in common."""

    def __init__(self, job: str, tokens: Mapping[str, str], clock: Callable[[], float], seed: int = 0) -> None:
        self.random, self.clock = random.Random(seed), clock
        requests = {name: frames.upgrade(worker_path(job, name), "load", token) for name, token in tokens.items()}
        self.lines = [Line(self, index, name, requests[name]) for index, name in enumerate(sorted(tokens))]
        self.generation, self.number = b"", 0
        self.plan: Plan | None = None
        self.arrived: dict[int, float] = {}
        """When each worker had the newest assignment."""

        self.on_reply: Callable[[Line, float], None] = lambda *_: None
        self.began = clock()
        self._newest_version = 0
        self._everybody = asyncio.Event()
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def lead(self) -> Line:
        """Rank 0: it also gets plans that it has not asked for, so its replies are not timed."""
        return self.lines[0]

    @property
    def present(self) -> Sequence[Line]:
        """The workers that are there."""
        return [line for line in self.lines if line.open]

    async def gather(self, host: str, port: int) -> None:
        """Connect everybody and wait until all have entered the first generation."""
        loop, gate = asyncio.get_running_loop(), asyncio.Semaphore(_OPEN_AT_ONCE)

        async def connect(line: Line) -> None:
            async with gate:
                await loop.create_connection(lambda: line, host, port)

        await asyncio.gather(*map(connect, self.lines))
        await self.everybody_arrived()

    async def lose(self, line: Line) -> list[float]:
        """Break one connection off; return after how long each of the others had the new assignment, sorted."""
        self.arrived.clear()
        self._everybody.clear()
        began = self.clock()
        line.close()
        await self.everybody_arrived()
        return sorted(at - began for at in self.arrived.values())

    async def everybody_arrived(self) -> None:
        """Wait until all who are there have the same new assignment."""
        await self.unless_failed(self._everybody.wait())

    async def unless_failed(self, work: Coroutine[object, object, object]) -> None:
        """Do some work; end early, with an error, if something goes wrong."""
        task = asyncio.ensure_future(work)
        try:
            async with asyncio.timeout(_LIMIT_SECONDS):
                await asyncio.wait((task, self._failed), return_when=asyncio.FIRST_COMPLETED)
            if self._failed.done():
                self._failed.result()
            await task
        finally:
            task.cancel()

    def fail(self, why: str) -> None:
        """Note what went wrong; whoever waits is told."""
        if not self._failed.done():
            self._failed.set_exception(RuntimeError(why))

    def heard(self, line: Line, payload: bytes) -> None:
        """Take in one message."""
        if payload.startswith(b'{"type":"reply"'):
            self._replied(line, payload)
        elif payload.startswith(b'{"type":"assignment"'):
            self._assigned(line, payload)
        elif payload.startswith(b'{"type":"welcome"'):
            line.say(to_frame(Join(device="cpu", address="127.0.0.1", port=4000 + line.index)).encode())
        else:
            self.fail(f"{line.name} was told {payload[:300]!r}")

    def report_of(self, line: Line) -> bytes:
        """Return what a worker has measured in the last second."""
        plan = self.plan
        if plan is None:
            raise RuntimeError("there is no plan to report on: gather the fleet first")
        step = int((self.clock() - self.began) / STEP_SECONDS)
        share = plan.shares.get(line.name, 0)
        compute = (0.02 + share / line.speed) * self.random.gauss(1.0, 0.02)
        return (
            f'{{"type":"report","worker":"{line.name}","generation":{line.entered.decode()},'
            f'"planVersion":{plan.version},"step":{step},"epoch":{step // 500},'
            f'"samples":{step * plan.global_batch},"share":{share},"steps":2,"computeSeconds":{compute:.6f},'
            f'"loadSeconds":0.0021,"reduceSeconds":0.0312,"waitSeconds":{max(STEP_SECONDS - compute, 0.0):.6f},'
            f'"stepSeconds":{STEP_SECONDS},"loss":0.6931,"cpuQuota":1.0,"logged":{{"accuracy":0.9806}}}}'
        ).encode()

    def _replied(self, line: Line, payload: bytes) -> None:
        if line is not self.lead and line.sent:
            now = self.clock()
            self.on_reply(line, now - line.sent.popleft())
        found = _PLAN.search(payload, 0, _HEAD_BYTES)
        if found and int(found[1]) > self._newest_version:
            reply = TO_WORKER.validate_json(payload)
            if isinstance(reply, Reply) and reply.plan is not None:
                self._newest_version = reply.plan.version
                asyncio.get_running_loop().call_later(2 * STEP_SECONDS, self._take, reply.plan)

    def _take(self, plan: Plan) -> None:
        if self.plan is not None and plan.generation == self.plan.generation and plan.version > self.plan.version:
            self.plan = plan

    def _assigned(self, line: Line, payload: bytes) -> None:
        now, found = self.clock(), _GENERATION.search(payload, 0, _HEAD_BYTES)
        if found is None or int(found[2]) < self.number:
            return
        if int(found[2]) > self.number:
            assignment = TO_WORKER.validate_json(payload)
            if not isinstance(assignment, Assignment):
                raise TypeError("an assignment was expected")
            self.generation, self.number = found[1], int(found[2])
            self.plan, self._newest_version = assignment.plan, assignment.plan.version
            self.arrived.clear()
        self.arrived[line.index] = now
        line.entered = self.generation
        line.say(b'{"type":"built","generation":%b}' % self.generation)
        line.say(b'{"type":"entered","generation":%b,"round":%d}' % (self.generation, self.number))
        if len(self.arrived) == len(self.present):
            self._everybody.set()
