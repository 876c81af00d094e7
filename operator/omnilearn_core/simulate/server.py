"""A server of Asynchronous and its workers, played arrival by arrival: what becomes of gradients, and when.

The kinds of staleness are those of omnilearn_runtime.asynchronous.policies, without all that has to do with learning;
the core may not import them, so a test compares the two.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

# So many gradients are played before and while a run is measured, for each worker.
_SETTLING, _MEASURED = 20, 60

# So many more at most, where updates are far between.
_MOST_MORE = 100_000


@dataclass(frozen=True, slots=True)
class Serving:
    """How a server works."""

    staleness: str = "Unbounded"
    """What becomes of a gradient that was computed with older parameters: a name in `KINDS`."""

    bound: int | None = None
    """The number of Bounded, Ringmaster and Rennala; None: as many as there are workers."""

    gradient_part: float = 1.0
    """How large a gradient is that is sent, beside the model. Parameters are always as large as that."""

    group: str | None = None
    """The group whose worker serves and does not compute."""


class Fate(NamedTuple):
    """What became of a worker's gradient. The worker is handed the present parameters then, and not before."""

    worker: int
    delay: int
    """Updates since its parameters were handed out."""

    counts: bool = True
    """False if it is discarded, and its samples are computed again."""


class Unbounded:
    """Every gradient is an update when it arrives. The other kinds change some of this."""

    whole = True
    """An update, or a round of them, has just ended: whoever counts them begins and ends here."""

    def __init__(self, bound: int | None, members: int) -> None:
        self._bound = members if bound is None else bound
        self._version = 0
        self._started: dict[int, int] = {}
        """At which version everybody was handed its parameters, the oldest first."""

    @property
    def updates(self) -> float:
        """Updates so far."""
        return self._version

    def begin(self, worker: int) -> None:
        """Note that a worker was handed the present parameters."""
        self._started.pop(worker, None)
        self._started[worker] = self._version

    def arrive(self, worker: int) -> list[Fate]:
        """Return what is decided now that a worker's gradient is there: of this one or of others, or nothing yet."""
        fate = Fate(worker, self._delay(worker))
        self._version += 1
        return [fate]

    def _delay(self, worker: int) -> int:
        return self._version - self._started[worker]


class Bounded(Unbounded):
    """No delay is above the bound: a gradient waits until all older ones could still be applied after it in time."""

    def __init__(self, bound: int | None, members: int) -> None:
        super().__init__(bound, members)
        # A lower one would leave workers without work.
        self._bound = max(self._bound, members - 1)
        self._waiting: list[int] = []

    def arrive(self, worker: int) -> list[Fate]:
        """Apply all that need not wait, first come, first served."""
        self._waiting.append(worker)
        fates: list[Fate] = []
        while self._waiting and (ready := self._first_ready()) is not None:
            self._waiting.remove(ready)
            fates += super().arrive(ready)
            del self._started[ready]
        return fates

    def _first_ready(self) -> int | None:
        # Whoever is alone is mostly among the oldest: of a thousand workers, few are looked at then.
        ready = self._ready() if len(self._waiting) == 1 else set(self._ready())
        return next((each for each in self._waiting if each in ready), None)

    def _ready(self) -> Iterator[int]:
        """Yield the oldest, up to the first whose turn would come too late if a younger one went before it."""
        for place, (worker, start) in enumerate(self._started.items()):
            yield worker
            if self._version + place >= start + self._bound:
                return


class Ringmaster(Unbounded):
    """A gradient is an update if its delay is below the bound, else it is discarded."""

    def arrive(self, worker: int) -> list[Fate]:
        """Apply or discard it."""
        delay = self._delay(worker)
        return super().arrive(worker) if delay < self._bound else [Fate(worker, delay, counts=False)]


class Rennala(Unbounded):
    """An update is made of as many gradients of the present parameters as the bound says; older ones are discarded."""

    _collected = 0

    @property
    def updates(self) -> float:
        """Updates so far, with what is there of one that takes longer than all that is played."""
        return self._version + self._collected / self._bound

    def arrive(self, worker: int) -> list[Fate]:
        """Collect or discard it."""
        delay = self._delay(worker)
        self._collected += not delay
        self.whole = self._collected >= self._bound
        if self.whole:
            self._version, self._collected = self._version + 1, 0
        return [Fate(worker, delay, counts=not delay)]


class Ringleader(Unbounded):
    """First a gradient of everybody is collected, without an update; then there is one update for each worker."""

    def __init__(self, bound: int | None, members: int) -> None:
        super().__init__(bound, members)
        self._there: set[int] = set()
        self._later: set[int] = set()
        """Whose gradients are there for the next round."""

        self._to_come: set[int] = set()
        """Whose update of the second phase is still to come; empty in the first phase."""

    def arrive(self, worker: int) -> list[Fate]:
        """Collect it, and update if it is time."""
        fate, self.whole = Fate(worker, self._delay(worker)), False
        if worker in self._to_come:
            self._to_come.remove(worker)
            self._update()
        elif self._to_come:
            self._later.add(worker)
        else:
            self._there.add(worker)
            if len(self._there) == len(self._started):
                self._to_come = self._there - {worker}
                self._update()
        return [fate]

    def _update(self) -> None:
        self._version += 1
        if not self._to_come:
            self._there, self._later, self.whole = self._later, set(), True


KINDS: dict[str, type[Unbounded]] = {
    "Unbounded": Unbounded,
    "Bounded": Bounded,
    # Its steps are shorter, not later.
    "DelayAdaptive": Unbounded,
    "Ringmaster": Ringmaster,
    "Ringleader": Ringleader,
    "Rennala": Rennala,
}


class Link(NamedTuple):
    """How long the server's connection is busy with one gradient, or with one answer, and how late both arrive."""

    push_seconds: float
    pull_seconds: float
    latency_seconds: float


class Played(NamedTuple):
    """What happened in a while."""

    seconds: float
    updates: float
    busy_seconds: float
    """Of all workers together."""

    fates: Sequence[Fate]


class Play:
    """Workers that each need so many seconds for a gradient, and a server that talks to one after the other."""

    def __init__(self, seconds: Sequence[float], kind: Unbounded, link: Link) -> None:
        self._seconds, self._kind, self._link = seconds, kind, link
        self._free = 0.0
        """When the server has answered all that has arrived."""

        self._arrivals = [(each, worker) for worker, each in enumerate(seconds)]
        heapq.heapify(self._arrivals)
        for worker in range(len(seconds)):
            kind.begin(worker)

    def measured(self) -> Played:
        """Return what happens once everybody is at its pace."""
        self._run(_SETTLING * len(self._seconds))
        return self._run(_MEASURED * len(self._seconds))

    def _run(self, arrivals: int) -> Played:
        begun, before = self._free, self._kind.updates
        busy, fates = 0.0, list[Fate]()
        for number in range(arrivals + _MOST_MORE):
            if number >= arrivals and self._kind.whole:
                break
            at, worker = heapq.heappop(self._arrivals)
            busy += self._seconds[worker]
            decided = self._kind.arrive(worker)
            self._answer(decided, max(at + self._link.latency_seconds, self._free))
            fates += decided
        return Played(self._free - begun, self._kind.updates - before, busy, fates)

    def _answer(self, decided: Sequence[Fate], since: float) -> None:
        """Receive a gradient, and hand the present parameters to all of whom something is decided."""
        push, pull, latency = self._link
        for place, fate in enumerate(decided, start=1):
            ready = since + (push + place * pull) + latency
            self._kind.begin(fate.worker)
            heapq.heappush(self._arrivals, (ready + self._seconds[fate.worker], fate.worker))
        self._free = since + (push + len(decided) * pull)
