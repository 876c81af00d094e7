"""What becomes of gradients as they arrive: one state machine for each kind of staleness. Pure: no tensors, no clock.

The server tells a policy who was handed the present parameters (`begin`), whose gradient has arrived (`arrive`), who
does not compute any more (`leave`) and that nothing more will come (`flush`). It does what the policy answers, in that
order. Gradients are collected in slots, each with its sum and weight; a version is one update.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from omnilearn_core.api.strategy import Asynchronous, Staleness

Slot = Hashable


@dataclass(frozen=True, slots=True)
class Fold:
    """Add a worker's gradient to a slot."""

    worker: str
    slot: Slot
    delay: int
    """Updates since its parameters were handed out, up to the one that it is folded for."""


@dataclass(frozen=True, slots=True)
class Discard:
    """Drop a worker's gradient; its samples are to be computed again."""

    worker: str
    delay: int


@dataclass(frozen=True, slots=True)
class Apply:
    """Update the model with the mean, over the slots, of their mean gradients, at ``rate`` times the learning rate."""

    slots: tuple[Slot, ...]
    rate: float = 1.0


@dataclass(frozen=True, slots=True)
class Empty:
    """Forget what is in a slot."""

    slot: Slot


@dataclass(frozen=True, slots=True)
class Rename:
    """Let a slot have another name."""

    old: Slot
    new: Slot


@dataclass(frozen=True, slots=True)
class Issue:
    """Hand the present parameters out to a worker, as soon as there are samples for it."""

    worker: str


Action = Fold | Discard | Apply | Empty | Rename | Issue


class Policy:
    """Unbounded: every gradient is applied when it arrives. The other kinds change some of this."""

    server_group: str | None = None

    def __init__(self, bound: int | None = None) -> None:
        self._bound = bound
        self.version = 0
        """Updates so far."""

        self.members = 1
        """How many workers there are that compute."""

        self._started: dict[str, int] = {}

    @property
    def bound(self) -> int:
        """The bound, if there is one in the manifest; else the number of members."""
        return self.members if self._bound is None else self._bound

    def begin(self, worker: str) -> None:
        """Note that a worker was handed the present parameters."""
        self._started[worker] = self.version

    def delay(self, worker: str) -> int:
        """Return how many updates there were since a worker was handed its parameters."""
        return self.version - self._started[worker]

    def arrive(self, worker: str) -> list[Action]:
        """Return what to do now that a worker's gradient is there."""
        return [*self._applied(worker, self.delay(worker)), Issue(worker)]

    def leave(self, worker: str) -> list[Action]:
        """Return what to do now that a worker computes nothing any more; its gradient will not arrive."""
        self._started.pop(worker, None)
        return []

    def flush(self) -> list[Action]:
        """Return what to do with what was collected, because nothing more will come."""
        return []

    def _applied(self, worker: str, delay: int, rate: float = 1.0) -> list[Action]:
        self.version += 1
        return [Fold(worker, worker, delay), Apply((worker,), rate), Empty(worker)]


class DelayAdaptive(Policy):
    """A gradient that is older than there are members makes a shorter step: n / max(n, delay) of the learning rate."""

    def arrive(self, worker: str) -> list[Action]:
        """Apply it, at the rate for its delay."""
        delay = self.delay(worker)
        return [*self._applied(worker, delay, self.members / max(self.members, delay)), Issue(worker)]


class Ringmaster(Policy):
    """A gradient is applied if its delay is below the bound, else discarded (arXiv 2501.16168)."""

    def arrive(self, worker: str) -> list[Action]:
        """Apply or discard it."""
        delay = self.delay(worker)
        fresh = delay < self.bound
        return [*(self._applied(worker, delay) if fresh else [Discard(worker, delay)]), Issue(worker)]


class Rennala(Policy):
    """An update is the mean of ``bound`` gradients of the present parameters; older ones are discarded."""

    _SUM = "sum"

    def __init__(self, bound: int | None = None) -> None:
        super().__init__(bound)
        self.collected = 0

    def arrive(self, worker: str) -> list[Action]:
        """Collect it if it is of the present parameters; update when enough are there."""
        delay = self.delay(worker)
        if delay:
            return [Discard(worker, delay), Issue(worker)]
        self.collected += 1
        full = self.collected >= self.bound
        return [Fold(worker, self._SUM, 0), *(self.flush() if full else []), Issue(worker)]

    def flush(self) -> list[Action]:
        """Update with what is there."""
        if not self.collected:
            return []
        self.collected = 0
        self.version += 1
        return [Apply((self._SUM,)), Empty(self._SUM)]


class Bounded(Policy):
    """No gradient is applied with a delay above the bound, and none is discarded: whoever is ahead waits.

    Everybody's gradient has a last version at which it may be applied. One is applied as soon as all others, those that
    are still being computed too, could be applied after it in time, one after the other. There is room for all if the
    bound is at least the number of members but one; a lower one would leave workers without work and counts as that.
    """

    def __init__(self, bound: int | None = None) -> None:
        super().__init__(bound)
        self._latest: dict[str, int] = {}
        self._waiting: list[str] = []

    def begin(self, worker: str) -> None:
        """Note until when its gradient may be applied."""
        super().begin(worker)
        self._latest[worker] = self.version + max(self.bound, self.members - 1)

    def arrive(self, worker: str) -> list[Action]:
        """Apply what may be applied; the rest waits, and so do those who computed it."""
        self._waiting.append(worker)
        return self._go_on()

    def leave(self, worker: str) -> list[Action]:
        """Drop its gradient if it waits; others need not wait for it any more."""
        waits = worker in self._waiting
        dropped: list[Action] = [Discard(worker, self.delay(worker))] if waits else []
        self._waiting = [each for each in self._waiting if each != worker]
        self._latest.pop(worker, None)
        super().leave(worker)
        return [*dropped, *self._go_on()]

    def _go_on(self) -> list[Action]:
        actions: list[Action] = []
        while (worker := next(filter(self._may_go, self._waiting), None)) is not None:
            self._waiting.remove(worker)
            del self._latest[worker]
            actions += [*self._applied(worker, self.delay(worker)), Issue(worker)]
        return actions

    def _may_go(self, worker: str) -> bool:
        others = sorted(latest for each, latest in self._latest.items() if each != worker)
        return all(self.version + 1 + place <= latest for place, latest in enumerate(others))


class Ringleader(Policy):
    """Updates use a gradient of every worker, in rounds of two phases (arXiv 2509.22860).

    First everybody's gradients are collected, without an update. Then there is one update for each worker, with its
    newest gradients and those of all others; what arrives from a worker that had its update is for the next round. What
    a worker that leaves has computed is still used; one that joins in the second phase is part of the next round.
    """

    def __init__(self, bound: int | None = None) -> None:
        super().__init__(bound)
        self._now: list[str] = []
        self._later: list[str] = []
        self._alive: set[str] = set()
        self._to_come: set[str] = set()
        """Whose update of the second phase is still to come; empty in the first phase."""

    def begin(self, worker: str) -> None:
        """Wait for its gradient, from the next first phase on."""
        super().begin(worker)
        self._alive.add(worker)

    def arrive(self, worker: str) -> list[Action]:
        """Collect it, and update if it is time."""
        delay = self.delay(worker)
        if not self._to_come:
            return [*self._collect(worker, delay, self._now, "now"), *self._maybe_turn(worker), Issue(worker)]
        if worker not in self._to_come:
            return [*self._collect(worker, delay, self._later, "later"), Issue(worker)]
        self._to_come.discard(worker)
        return [*self._collect(worker, delay, self._now, "now"), *self._update(), *self._maybe_end(), Issue(worker)]

    def leave(self, worker: str) -> list[Action]:
        """Wait for it no more."""
        super().leave(worker)
        self._alive.discard(worker)
        if worker not in self._to_come:
            return []
        self._to_come.discard(worker)
        return self._maybe_end()

    def flush(self) -> list[Action]:
        """Update with what no update has used yet, if there is anything."""
        if self._to_come:
            self._to_come = set()
            ended = self._maybe_end()
        else:
            ended = []
        return [*ended, *(self._update() if self._now else []), *(Empty(("now", each)) for each in self._forget())]

    def _collect(self, worker: str, delay: int, table: list[str], name: str) -> list[Action]:
        if worker not in table:
            table.append(worker)
        return [Fold(worker, (name, worker), delay)]

    def _maybe_turn(self, last: str) -> list[Action]:
        """Begin the second phase if everybody's gradient is there: the last one to finish has the first update."""
        if not self._alive.issubset(self._now):
            return []
        self._to_come = self._alive - {last}
        return [*self._update(), *self._maybe_end()]

    def _update(self) -> list[Action]:
        self.version += 1
        return [Apply(tuple(("now", each) for each in self._now))]

    def _maybe_end(self) -> list[Action]:
        """End the round if nobody's update is to come."""
        if self._to_come:
            return []
        emptied: list[Action] = [Empty(("now", each)) for each in self._now]
        renamed: list[Action] = [Rename(("later", each), ("now", each)) for each in self._later]
        self._now, self._later = self._later, []
        return [*emptied, *renamed]

    def _forget(self) -> Sequence[str]:
        now, self._now = self._now, []
        return now


_KINDS: dict[Staleness, Callable[[int | None], Policy]] = {
    Staleness.UNBOUNDED: Policy,
    Staleness.BOUNDED: Bounded,
    Staleness.DELAY_ADAPTIVE: DelayAdaptive,
    Staleness.RINGMASTER: Ringmaster,
    Staleness.RINGLEADER: Ringleader,
    Staleness.RENNALA: Rennala,
}


def policy_of(options: Asynchronous) -> Policy:
    """Return the policy that a manifest asks for, at its beginning."""
    policy = _KINDS[options.staleness](options.bound)
    policy.server_group = options.server_group
    return policy
