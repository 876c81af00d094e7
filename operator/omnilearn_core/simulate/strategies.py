"""What each strategy would cost on given workers and a given network: a model of times, not of learning.

Everything is deterministic: mean speeds, no noise. What an update brings differs between strategies, so more updates or
samples a second are not the whole truth: docs/strategies.md has what was measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from omnilearn_core.control.shares import Slot, apportion, balance

from .cluster import SimulatedWorker
from .server import KINDS, Link, Play, Serving


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

    local_even: bool = False
    """Everybody takes the same number of local steps, and the fast wait."""

    local_interval: int = 1
    """Global batches between two merges of local steps."""

    local_merged: int = 1
    """How many times as much as the model is summed in a merge of local steps."""

    local_anchors: bool = False
    """A local step takes two gradients, and every other round computes one gradient of all instead, without a step."""

    interval: int = 4
    """Steps between two merges of groups."""

    inside_seconds: float | None = None
    """How long an exchange takes inside of the slowest group, if that is known."""

    hidden_seconds: float = 0.0
    """What part of an exchange of gradients Synchronous hides behind its computing."""

    serving: Serving = field(default_factory=Serving)
    """How the server of Asynchronous works."""

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
    """Of those that count."""

    idle: float
    """Part of the workers' time in which they do not compute."""

    mean_staleness: float = 0.0
    max_staleness: int = 0
    discarded: float = 0.0
    """Part of the computed samples whose gradients are discarded, and that are computed again."""


def estimates(question: Question) -> list[Estimate]:
    """Return all strategies, the plain ones first."""
    served = _without_server(question)
    return [
        synchronous(question, _equal(question), "Synchronous, equal shares"),
        synchronous(question, balanced(question), "Synchronous"),
        local_sgd(question),
        hierarchical(question),
        asynchronous(served, _equal(served), "Asynchronous, equal shares"),
        asynchronous(served, balanced(served), "Asynchronous"),
    ]


def balanced(question: Question) -> list[int]:
    """Return the shares with which everybody computes for as long."""
    return balance(question.global_batch, [worker.slot(question.global_batch) for worker in question.workers])


def _equal(question: Question, total: int | None = None) -> list[int]:
    """Return equal parts of a global batch, or of another number."""
    total, count = question.global_batch if total is None else total, len(question.workers)
    return apportion(total, [1.0] * count, [(0, total)] * count)


def synchronous(question: Question, shares: Sequence[int], name: str) -> Estimate:
    """Compute together, sum the gradients, update."""
    busy = [worker.seconds(share) for worker, share in zip(question.workers, shares, strict=True)]
    seconds = max(busy) + question.exposed_seconds
    return _in_step(name, seconds, seconds, question.global_batch, busy)


def local_sgd(question: Question) -> Estimate:
    """Take local steps, as many as each can in the same time, or all as many, or one of a global batch; then merge."""
    batch, interval = min(question.local_batch or 1, question.global_batch), question.local_interval
    units = question.global_batch // batch
    if question.local_batch is None:
        shares = balanced(question)
        per_batch = [w.seconds(share) for w, share in zip(question.workers, shares, strict=True)]
    else:
        counts = _local_steps(question, units, batch)
        shares = [count * batch for count in counts]
        per_batch = [count * worker.seconds(batch) for count, worker in zip(counts, question.workers, strict=True)]
    rounds = [[interval * each for each in per_batch]]
    if question.local_anchors:
        # One gradient of all samples of a round, in which nobody steps; then two for every local step.
        anchor = [w.seconds(interval * share) for w, share in zip(question.workers, shares, strict=True)]
        rounds = [anchor, [2 * each for each in rounds[0]]]
    merge = question.network.all_reduce(question.local_merged * question.model_bytes, len(question.workers))
    seconds = sum(max(each) + merge for each in rounds)
    busy = [sum(each) for each in zip(*rounds, strict=True)]
    return _in_step("LocalSGD", seconds, seconds, len(rounds) * interval * units * batch, busy)


def _local_steps(question: Question, units: int, batch: int) -> list[int]:
    """Return how many of the local steps of a global batch each worker takes."""
    if question.local_even:
        return _equal(question, units)
    return balance(units, [Slot(0.0, worker.seconds(batch), 0, units) for worker in question.workers])


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


def _without_server(question: Question) -> Question:
    """Return what is asked of Asynchronous: a worker that serves in a group of its own does not compute."""
    workers = tuple(worker for worker in question.workers if worker.group != question.serving.group)
    return replace(question, workers=workers)


def asynchronous(question: Question, shares: Sequence[int], name: str) -> Estimate:
    """Play workers, all of which compute, that push gradients to one server and pull its model, one after the other."""
    serving, network = question.serving, question.network
    workers = [(w.seconds(share), share) for w, share in zip(question.workers, shares, strict=True) if share]
    pull = question.model_bytes / network.bytes_per_second
    link = Link(serving.gradient_part * pull, pull, network.latency_seconds)
    kind = KINDS[serving.staleness](serving.bound, len(question.workers))
    played = Play([seconds for seconds, _ in workers], kind, link).measured()
    stale = [fate.delay for fate in played.fates if fate.counts]
    computed = sum(workers[fate.worker][1] for fate in played.fates)
    counting = sum(workers[fate.worker][1] for fate in played.fates if fate.counts)
    return Estimate(
        name,
        # If there was none in all that was played, an update takes longer than that.
        played.seconds / (played.updates or 1.0),
        counting / played.seconds,
        max(0.0, 1.0 - played.busy_seconds / len(workers) / played.seconds),
        sum(stale) / len(stale),
        max(stale),
        (computed - counting) / computed,
    )
