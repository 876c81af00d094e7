"""Asynchronous algorithms written down plainly, as their papers do, and a model small enough to compare them on.

Gradients are of a quadratic, with noise that depends on the worker and on how many it has computed. All is driven by
an order of arrivals.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor

RATE = 0.05
SIZE = 3
_MATRIX = torch.diag(torch.tensor([1.0, 0.3, 2.0], dtype=torch.float64))


@dataclass
class Workers:
    """Computes gradients: the n-th of a worker at the parameters that it was handed last."""

    handed: dict[str, Tensor] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def hand(self, worker: str, x: Tensor) -> None:
        self.handed[worker] = x.clone()

    def gradient(self, worker: str) -> Tensor:
        self.counts[worker] += 1
        seed = 1000 * int(worker) + self.counts[worker]
        noise = torch.randn(SIZE, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        return _MATRIX @ self.handed[worker] + noise


def begin(names: Iterable[str]) -> tuple[Workers, Tensor, dict[str, int]]:
    workers, x = Workers(), torch.ones(SIZE, dtype=torch.float64)
    for name in names:
        workers.hand(name, x)
    return workers, x, dict.fromkeys(names, 0)


def asynchronous(
    names: list[str], order: list[str], rate_of: Callable[[int], float] = lambda _: 1.0
) -> tuple[Tensor, int]:
    """x ← x − γ(δ)·g for every gradient that arrives."""
    workers, x, start = begin(names)
    for k, i in enumerate(order):
        x = x - RATE * rate_of(k - start[i]) * workers.gradient(i)
        start[i] = k + 1
        workers.hand(i, x)
    return x, 0


def delay_adaptive(names: list[str], order: list[str]) -> tuple[Tensor, int]:
    n = len(names)
    return asynchronous(names, order, lambda delay: n / max(n, delay))


def ringmaster(names: list[str], order: list[str], bound: int) -> tuple[Tensor, int]:
    """Algorithm 4 of Ringmaster ASGD; also returns how many gradients were discarded."""
    workers, x, start = begin(names)
    k = discarded = 0
    for i in order:
        g = workers.gradient(i)
        if k - start[i] < bound:
            x = x - RATE * g
            k += 1
        else:
            discarded += 1
        start[i] = k
        workers.hand(i, x)
    return x, discarded


def rennala(names: list[str], order: list[str], count: int) -> tuple[Tensor, int]:
    """Rennala SGD: a batch of ``count`` gradients at x^k; everything still on its way then is ignored."""
    workers, x, start = begin(names)
    k = s = ignored = 0
    total = torch.zeros_like(x)
    for i in order:
        g = workers.gradient(i)
        if start[i] == k:
            total += g
            s += 1
        else:
            ignored += 1
        if s == count:
            x = x - RATE * total / count
            k, s, total = k + 1, 0, torch.zeros_like(x)
        start[i] = k
        workers.hand(i, x)
    return x, ignored


def ringleader(names: list[str], order: list[str]) -> tuple[Tensor, int]:
    """Ringleader ASGD, round after round; also returns the largest delay of a gradient in an update."""
    workers, x, start = begin(names)
    n, k, largest = len(names), 0, 0
    arrivals = iter(order)
    table: dict[str, list[tuple[Tensor, int]]] = defaultdict(list)

    def update(current: dict[str, list[tuple[Tensor, int]]]) -> None:
        nonlocal x, k, largest
        largest = max([largest, *(k - at for each in current.values() for _, at in each)])
        x = x - RATE * sum((sum(g for g, _ in current[i]) / len(current[i]) for i in names), torch.zeros(SIZE)) / n
        k += 1

    try:
        while True:
            while True:  # phase 1
                i = next(arrivals)
                table[i].append((workers.gradient(i), start[i]))
                if all(table[j] for j in names):
                    break
                start[i] = k
                workers.hand(i, x)
            following: dict[str, list[tuple[Tensor, int]]] = defaultdict(list)
            update(table)
            start[i] = k
            workers.hand(i, x)
            updated = {i}
            while len(updated) < n:  # phase 2
                i = next(arrivals)
                if i in updated:
                    following[i].append((workers.gradient(i), start[i]))
                else:
                    table[i].append((workers.gradient(i), start[i]))
                    update(table)
                    updated.add(i)
                start[i] = k
                workers.hand(i, x)
            table = following
    except StopIteration:
        return x, largest
