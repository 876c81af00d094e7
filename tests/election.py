"""Replicas with clocks of their own, one Lease, and a network between them that loses and delays: in simulated time."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from omnilearn_operator import leadership
from omnilearn_operator.leadership import Knowledge, Lease, Look, Renew, Step, StepDown, Take, Timing, Wait

DRIFT = 0.05
"""By how much a clock may run faster or slower than true time."""

RESTART_SECONDS = 5.0
_QUICK = 0.02
_SLOWEST = 30.0


@dataclass
class Server:
    """The API server: it takes a change only from those who have seen the last one."""

    lease: Lease | None = None
    versions: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    reigns: list[int] = field(default_factory=list)

    def write(self, wanted: Lease) -> Lease | None:
        """Return the Lease as it is then; None if somebody else was faster."""
        if wanted.version != (self.lease.version if self.lease else ""):
            return None
        if self.lease is None or wanted.reign != self.lease.reign:
            self.reigns.append(wanted.reign)
        self.lease = replace(wanted, version=str(next(self.versions)))
        return self.lease


@dataclass
class Replica:
    """One process; it answers to nothing while it is paused."""

    name: str
    offset: float
    rate: float
    wall: float
    known: Knowledge
    paused_until: float = 0.0
    call: int = 0
    """Number of the call that it waits for; answers to earlier ones are ignored."""

    def clock(self, now: float) -> float:
        return self.offset + self.rate * now


class World:
    """Runs replicas and faults; `overlaps` has every moment at which two decided."""

    def __init__(self, seed: int, replicas: int = 3, timing: Timing | None = None) -> None:
        self.random, self.timing = random.Random(seed), timing or Timing()
        self.server, self.now, self.faulty = Server(), 0.0, False
        self.latest = float("inf")
        """When the last pause ends, and the last of what is late arrives."""

        self.overlaps: list[tuple[float, str, str]] = []
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self.replicas = [self._replica(f"r{number}") for number in range(replicas)]
        for each in self.replicas:
            self._wake(each, self.random.uniform(0, 2))

    def _replica(self, name: str) -> Replica:
        offset, wall = self.random.uniform(0, 1e6), self.random.uniform(0, 4e9)
        return Replica(name, offset, self.random.uniform(1 - DRIFT, 1 + DRIFT), wall, Knowledge(name))

    # Time

    def at(self, when: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (when, next(self._order), do))

    def run_until(self, end: float, true: Callable[[], bool] = lambda: False) -> None:
        """Let time pass, until it is that late or something is true."""
        while not true() and self._heap and self._heap[0][0] <= end:
            self.now, _, do = heapq.heappop(self._heap)
            do()
        self.now = self.now if true() else end

    def deciding(self) -> list[str]:
        return [each.name for each in self.replicas if self._decides(each)]

    def _decides(self, replica: Replica) -> bool:
        return leadership.decides(replica.known, replica.clock(self.now), self.timing)

    # Faults

    def freeze(self, replica: Replica, seconds: float) -> None:
        replica.paused_until = max(replica.paused_until, min(self.now + seconds, self.latest))

    def restart(self, replica: Replica, *, as_new: bool) -> None:
        """Kill a process; another one comes after a while, in the same pod or in a new one."""
        name = f"{replica.name}'" if as_new else replica.name
        replica.name, replica.known, replica.call = name, Knowledge(name), replica.call + 1
        self._wake(replica, self.random.uniform(0.5, RESTART_SECONDS))

    def release(self, replica: Replica) -> None:
        """End a process properly: it gives the Lease back, if it has it."""
        if replica.known.reign is not None:
            name, reign = replica.name, replica.known.reign
            self._arriving(lambda: self._free(name, reign))
        self.restart(replica, as_new=True)

    def _free(self, name: str, reign: int) -> None:
        # The last renewal may have been on its way: it looks again, and frees what is still its own.
        lease = self.server.lease
        if lease is not None and (lease.holder, lease.reign) == (name, reign):
            self.server.write(replace(lease, holder=""))

    def trouble(self) -> None:
        """Do something bad to somebody."""
        victim = self.random.choice(self.replicas)
        faults: list[Callable[[], None]] = [
            lambda: self.freeze(victim, self.random.expovariate(1 / 6)),
            lambda: self.restart(victim, as_new=False),
            lambda: self.restart(victim, as_new=True),
            lambda: self.release(victim),
        ]
        self.random.choice(faults)()

    # A replica's life

    def _wake(self, replica: Replica, seconds: float) -> None:
        call = replica.call
        self.at(self.now + seconds, lambda: self._when_awake(replica, call, lambda: self._live(replica)))

    def _when_awake(self, replica: Replica, call: int, do: Callable[[], None]) -> None:
        """Do something, after a pause if there is one, unless something else has happened since."""
        if replica.call != call:
            return
        if self.now < replica.paused_until:
            # What has come during a pause is taken in any order after it.
            late = replica.paused_until + self.random.uniform(0, 1e-3)
            self.at(late, lambda: self._when_awake(replica, call, do))
            return
        do()

    def _live(self, replica: Replica) -> None:
        now = replica.clock(self.now)
        match step := leadership.next_step(replica.known, now, self.timing):
            case Wait(seconds):
                self._wake(replica, max(seconds, 0.0) / replica.rate + 1e-6)
            case StepDown():
                replica.known = leadership.stepped_down(replica.known, now)
                self._wake(replica, 0.1)
            case Look() | Take() | Renew():
                self._call(replica, step, now)

    def _call(self, replica: Replica, step: Step, sent: float) -> None:
        replica.call += 1
        call, wanted = replica.call, self._wanted(replica, step)
        limit = leadership.call_seconds(replica.known, sent, self.timing)

        def fail() -> None:
            replica.known = leadership.refused(replica.known, replica.clock(self.now), self.timing, changed=False)
            self._next(replica)

        def arrive() -> None:
            answer = self.server.lease if wanted is None else self.server.write(wanted)
            self._arriving(lambda: self._when_awake(replica, call, lambda: take_in(answer)))

        def take_in(answer: Lease | None) -> None:
            self._take_in(replica, step, answer, sent)
            self._next(replica)

        self._arriving(arrive)
        self.at(self.now + limit / replica.rate, lambda: self._when_awake(replica, call, fail))

    def _next(self, replica: Replica) -> None:
        replica.call += 1
        self._wake(replica, 1e-4)

    def _wanted(self, replica: Replica, step: Step) -> Lease | None:
        if isinstance(step, Look):
            return None
        reign = replica.known.reign
        if isinstance(step, Take) or reign is None:
            reign = leadership.next_reign(replica.known, replica.wall + self.now)
        return Lease(replica.known.lease.version, replica.name, reign, self.timing.lease)

    def _take_in(self, replica: Replica, step: Step, answer: Lease | None, sent: float) -> None:
        now = replica.clock(self.now)
        if isinstance(step, Look):
            replica.known = leadership.read(replica.known, answer, now, self.timing)
        elif answer is None:
            replica.known = leadership.refused(replica.known, now, self.timing, changed=True)
        else:
            replica.known = leadership.taken(replica.known, answer, sent, self.timing)
            self._compare(replica)

    def _compare(self, replica: Replica) -> None:
        """A replica's time to decide has just begun or become longer: nobody else's may last."""
        if self._decides(replica):
            others = [name for name in self.deciding() if name != replica.name]
            self.overlaps += [(self.now, replica.name, other) for other in others]

    def _arriving(self, do: Callable[[], None]) -> None:
        """Have something arrive: soon, or while there are faults late, or never."""
        luck = self.random.random() if self.faulty else 1.0
        if luck > 0.3:
            self.at(self.now + self.random.uniform(0, _QUICK), do)
        elif luck > 0.15:
            late = self.now + self.random.uniform(0, _SLOWEST)
            self.at(min(late, max(self.latest, self.now)), do)
