"""Which faults happen to the pods, in which order and how close to each other: a pure function of a seed.

Who is hit is decided when it happens, from those who train then.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

WORKERS, FEWEST = 3, 1
"""How many workers the job has, and how many of those that hold the model no fault may touch."""

Target = TypeVar("Target")


class Kind(StrEnum):
    """What is done."""

    KILL = "kill"
    EVICT = "evict"
    PREEMPT = "preempt"
    RESIZE = "resize"
    MEMORY = "out of memory"
    CUT = "cut"
    OPERATOR = "operator"
    API_SERVER = "API server"
    KUBELET = "kubelet"


OF_THE_NODE = frozenset({Kind.CUT, Kind.API_SERVER, Kind.KUBELET})
"""What only whoever has made the node can do."""

LOSSES = frozenset({Kind.KILL, Kind.EVICT, Kind.PREEMPT, Kind.MEMORY, Kind.CUT})
"""After these a pod trains no more."""

_WEIGHTS = {
    Kind.KILL: 5, Kind.EVICT: 3, Kind.PREEMPT: 2, Kind.RESIZE: 3, Kind.MEMORY: 2, Kind.CUT: 2, Kind.OPERATOR: 3,
    Kind.API_SERVER: 2, Kind.KUBELET: 2,
}  # fmt: skip
_OF_SEVERAL = (Kind.KILL, Kind.EVICT)
_SEVERAL, HURRY = 0.3, 0.45
_PAUSE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, or the same one to several pods at once."""

    kind: Kind
    count: int = 1
    """How many pods are hit."""

    pick: float = 0.0
    """Chance of the choice of whom: from 0 to less than 1."""

    hurry: bool = False
    """Strike before the job has recovered from the faults before."""

    pause: float = 0.0
    """Seconds from the moment at which it may strike."""

    seconds: float = 0.0
    """How much longer than it must a cut or an outage lasts."""

    def __str__(self) -> str:
        return f"{self.kind}{f' {self.count} at once' if self.count > 1 else ''}{', in a hurry' if self.hurry else ''}"


def plan(seed: int, count: int, kinds: Collection[Kind] = frozenset(Kind), hurry: float = HURRY) -> list[Fault]:
    """Return ``count`` faults: first every kind once, as far as that goes, then whatever chance says.

    ``hurry`` is the part of them that strikes before the job has recovered.
    """
    chance = random.Random(seed)
    possible = [kind for kind in Kind if kind in kinds]
    each_once = chance.sample(possible, len(possible))
    faults: list[Fault] = []
    while sum(fault.count for fault in faults) < count:
        left = count - sum(fault.count for fault in faults)
        kind = each_once.pop() if each_once else chance.choices(possible, [_WEIGHTS[kind] for kind in possible])[0]
        faults.append(_fault(chance, kind, min(left, WORKERS - FEWEST), hurry if faults else 0.0))
    return faults


def _fault(chance: random.Random, kind: Kind, most: int, hurry: float) -> Fault:
    several = kind in _OF_SEVERAL and chance.random() < _SEVERAL
    return Fault(
        kind,
        count=most if several else 1,
        pick=chance.random(),
        hurry=chance.random() < hurry,
        pause=chance.uniform(0.0, _PAUSE_SECONDS),
        seconds=chance.random(),
    )


def chosen(fault: Fault, holders: Sequence[Target]) -> tuple[Target, ...] | None:
    """Return whom a fault hits of those who hold the model; None if too few would be left by it.

    A fault that ends nobody may hit anybody. One for which the cluster chooses hits nobody here. Who is to be out of
    memory is not left to chance: the first of them, because each time is dearer to the same worker.
    """
    loses = fault.kind in LOSSES
    count = fault.count if loses or fault.kind is Kind.RESIZE else 0
    if len(holders) < count + (FEWEST if loses else 0):
        return None
    if fault.kind is Kind.PREEMPT:
        return ()
    begin = int(fault.pick * len(holders)) if fault.kind is not Kind.MEMORY else 0
    return tuple(holders[(begin + step) % len(holders)] for step in range(count))
