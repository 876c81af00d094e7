"""What each strategy would cost on given workers and a given network: a model of times, not of learning.

Everything is deterministic: mean speeds, no noise. What an update brings differs between strategies, so more updates or
samples a second are not the whole truth: docs/strategies.md has what was measured.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from omnilearn_core.control.shares import Slot, apportion, balance

from .cluster import SimulatedWorker

# So many updates are played before and while an asynchronous run is measured, for each worker.
_SETTLING, _MEASURED = 20, 60


@dataclass(frozen=True, slots=True)
class Network:
    """What lies between the workers: the same for each of them, and for a server."""

    bytes_per_second: float
    latency_seconds: float = 0.0

    def transfer(self, size: float) -> float:
        """Return how long it takes to send so many bytes to one other."""
        return self.latency_seconds + size / self.bytes_per_second

    def all_reduce(self, size: float, members: int) -> float:
        """Return how long a ring takes to sum so many bytes over the members."""
        if members < 2:
            return 0.0
        return 2 * (members - 1) * (self.latency_seconds + size / members / self.bytes_per_second)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: the same job under each strategy."""

    global_batch: int
    workers: tuple[SimulatedWorker, ...]
    model_bytes: float
    network: Network
    local_batch: int | None = 32
    """Samples of a local step; None: a worker's share of a global batch."""

    local_interval: int = 1
    """Global batches between two merges of local steps."""

    interval: int = 4
    """Steps between two merges of groups."""

    inside_seconds: float | None = None
    """How long an exchange takes inside of the slowest group, if that is known."""

    hidden_seconds: float = 0.0
    """What part of an exchange of gradients Synchronous hides behind its computing."""

    @property
    def exchange_seconds(self) -> float:
        """How long it takes to sum a model over all workers."""
        return self.network.all_reduce(self.model_bytes, len(self.workers))

    @property
    def exposed_seconds(self) -> float:
        """What Synchronous waits for in a step, after its computing."""
        return max(0.0, self.exchange_seconds - self.hidden_seconds)

    @property
    def groups(self) -> dict[str, int]:
        """How many workers each group has."""
        return Counter(worker.group for worker in self.workers)


class Estimate(NamedTuple):
    """What a strategy would do."""

    strategy: str
    update_seconds: float
    """From one update of the model to the next."""

    samples_per_second: float
    idle: float
    """Part of the workers' time in which they do not compute."""

    mean_staleness: float = 0.0
    max_staleness: int = 0


def estimates(question: Question) -> list[Estimate]:
    """Return all strategies, the plain ones first."""
    return [
        synchronous(question, _equal(question), "Synchronous, equal shares"),
        synchronous(question, balanced(question), "Synchronous"),
        local_sgd(question),
        hierarchical(question),
        asynchronous(question, _equal(question), "Asynchronous, equal shares"),
        asynchronous(question, balanced(question), "Asynchronous"),
    ]


def balanced(question: Question) -> list[int]:
    """Return the shares with which everybody computes for as long."""
    return balance(question.global_batch, [worker.slot(question.global_batch) for worker in question.workers])


def _equal(question: Question) -> list[int]:
    bounds = [(0, question.global_batch)] * len(question.workers)
    return apportion(question.global_batch, [1.0] * len(question.workers), bounds)


def synchronous(question: Question, shares: Sequence[int], name: str) -> Estimate:
    """Compute together, sum the gradients, update."""
    busy = [worker.seconds(share) for worker, share in zip(question.workers, shares, strict=True)]
    seconds = max(busy) + question.exposed_seconds
    return _in_step(name, seconds, seconds, question.global_batch, busy)


def local_sgd(question: Question) -> Estimate:
    """Take local steps, as many as each can in the same time, or one of each global batch; sum the models once."""
    batch = min(question.local_batch or 1, question.global_batch)
    units = question.global_batch // batch
    if question.local_batch is None:
        per_batch = [w.seconds(share) for w, share in zip(question.workers, balanced(question), strict=True)]
    else:
        slots = [Slot(0.0, worker.seconds(batch), 0, units) for worker in question.workers]
        per_batch = [count * slot.per_sample for count, slot in zip(balance(units, slots), slots, strict=True)]
    busy = [question.local_interval * each for each in per_batch]
    seconds = max(busy) + question.exchange_seconds
    return _in_step("LocalSGD", seconds, seconds, question.local_interval * units * batch, busy)


def hierarchical(question: Question) -> Estimate:
    """Be synchronous inside of groups; sum the models every few steps, beside the computing."""
    shares, network, size = balanced(question), question.network, question.model_bytes
    busy = [worker.seconds(share) for worker, share in zip(question.workers, shares, strict=True)]
    inside = question.inside_seconds
    if inside is None:
        inside = max(network.all_reduce(size, count) for count in question.groups.values())
    step = max(busy) + inside
    # Summed beside the next step; what takes longer than that is waited for. All workers take part in it.
    merge = question.exchange_seconds if len(question.groups) > 1 else 0.0
    seconds = question.interval * step + max(0.0, merge - step)
    computing = [question.interval * each for each in busy]
    update = seconds / question.interval
    return _in_step("Hierarchical", update, seconds, question.interval * question.global_batch, computing)


def _in_step(name: str, update: float, seconds: float, samples: int, busy: Sequence[float]) -> Estimate:
    return Estimate(name, update, samples / seconds, 1.0 - sum(busy) / len(busy) / seconds)


def asynchronous(question: Question, shares: Sequence[int], name: str) -> Estimate:
    """Play workers that push gradients to one server and pull its model, one after the other."""
    exchange = 2 * question.model_bytes / question.network.bytes_per_second
    workers = [(w, share) for w, share in zip(question.workers, shares, strict=True) if share]
    arrivals = [(worker.seconds(share), k, 0) for k, (worker, share) in enumerate(workers)]
    heapq.heapify(arrivals)
    free, version = 0.0, 0
    first, last = _SETTLING * len(workers), (_SETTLING + _MEASURED) * len(workers)
    stale: list[int] = []
    samples, busy, begun = 0, 0.0, 0.0
    while version < last:
        arrived, k, pulled = heapq.heappop(arrivals)
        free = max(arrived + question.network.latency_seconds, free) + exchange
        worker, share = workers[k]
        if version >= first:
            stale.append(version - pulled)
            samples += share
            busy += worker.seconds(share)
        version += 1
        begun = free if version == first else begun
        ready = free + question.network.latency_seconds
        heapq.heappush(arrivals, (ready + worker.seconds(share), k, version))
    seconds = free - begun
    return Estimate(
        name,
        seconds / len(stale),
        samples / seconds,
        max(0.0, 1.0 - busy / len(workers) / seconds),
        sum(stale) / len(stale),
        max(stale),
    )
