"""Figures from committed rounds: speeds, where time went, and what equal shares would have cost. Pure."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .traces import Line, Round

# Speeds are measured over so many steps of a worker: one step is too noisy, and the slowest of noisy ones is too slow.
WINDOW = 10


@dataclass(frozen=True, slots=True)
class MemberFigures:
    """What a worker did over the whole run: its speed while computing, and the parts of its time."""

    samples_per_second: float
    compute: float
    load: float
    reduce: float
    wait: float
    staleness: float | None = None
    """Mean delay of its gradients that were applied, in updates, if a server applied them."""

    max_staleness: int | None = None
    """The largest of these delays."""


def training(rounds: Iterable[Round]) -> list[Round]:
    """Return the rounds that updated the model."""
    return [one for one in rounds if one.any.kind in ("step", "gradient") and one.samples > 0]


def speeds(steps: Iterable[Round], window: int = WINDOW) -> Iterator[dict[str, float]]:
    """Return for each step the samples per second of the workers known by then, over their last few steps."""
    recent: dict[str, deque[tuple[int, float]]] = defaultdict(lambda: deque(maxlen=window))
    known: dict[str, float] = {}
    for one in steps:
        for worker, line in one.parts.items():
            if line.samples and line.seconds.busy > 0 and not line.disturbed:
                recent[worker].append((line.samples, line.seconds.busy))
                known[worker] = _speed(recent[worker])
        yield dict(known)


def _speed(measured: Collection[tuple[int, float]]) -> float:
    """Return samples per second, without the slowest of several: a process that was frozen meanwhile was not slow."""
    kept = sorted(measured, key=lambda one: one[0] / one[1])[1 if len(measured) > 4 else 0 :]
    return sum(samples for samples, _ in kept) / sum(seconds for _, seconds in kept)


def uniform_seconds(steps: Sequence[Round]) -> float:
    """Return the compute time of the run with equal shares: each step as long as the slowest would have taken."""
    total = 0.0
    for one, speed in zip(steps, speeds(steps), strict=True):
        members = one.any.members
        slowest = min((speed[worker] for worker in members if worker in speed), default=None)
        if slowest:
            total += one.samples / len(members) / slowest
    return total


def compute_seconds(steps: Sequence[Round]) -> float:
    """Return the same for the shares that were: what `uniform_seconds` is to be compared with."""
    return sum(
        max((line.samples / speed[worker] for worker, line in one.parts.items() if worker in speed), default=0.0)
        for one, speed in zip(steps, speeds(steps), strict=True)
    )


def elapsed(steps: Sequence[Round]) -> float:
    """Return the seconds from the beginning of the first step to the end of the last."""
    if not steps:
        return 0.0
    first = max(line.seconds.step for line in steps[0].parts.values())
    return max(steps[-1].time - steps[0].time + first, 0.0)


def plan_changes(steps: Sequence[Round]) -> int:
    """Return how often the members of a generation changed to another plan."""
    return sum(
        before.generation == after.generation and before.any.plan != after.any.plan for before, after in pairwise(steps)
    )


def generations(rounds: Iterable[Round]) -> int:
    """Return how many generations have committed something."""
    return len({one.generation for one in rounds})


def member_figures(steps: Iterable[Round]) -> dict[str, MemberFigures]:
    """Return the figures of every worker that contributed."""
    lines: dict[str, list[Line]] = defaultdict(list)
    for one in steps:
        for worker, line in one.parts.items():
            lines[worker].append(line)
    return {worker: _figures(own) for worker, own in lines.items()}


def _figures(lines: Sequence[Line]) -> MemberFigures:
    busy = sum(line.seconds.busy for line in lines)
    parts = fractions(
        sum(line.seconds.step for line in lines),
        compute=sum(line.seconds.compute for line in lines),
        load=sum(line.seconds.load for line in lines),
        reduce=sum(line.seconds.reduce for line in lines),
        wait=sum(line.seconds.wait for line in lines),
    )
    speed = sum(line.samples for line in lines) / busy if busy > 0 else 0.0
    delays = [line.delay for line in lines if line.delay is not None]
    mean = sum(delays) / len(delays) if delays else None
    return MemberFigures(speed, **parts, staleness=mean, max_staleness=max(delays, default=None))


def fractions(step: float, **parts: float) -> dict[str, float]:
    """Return the parts of a step's time as fractions of it, together at most 1."""
    whole = max(step, sum(parts.values()))
    return {name: (part / whole if whole > 0 else 0.0) for name, part in parts.items()}
