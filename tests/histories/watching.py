"""What reaches an operator of the changes: late, twice, in another order, or not at all when a watch begins anew."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from enum import StrEnum

from omnilearn_core.api import names

from .store import Change, Store


class Order(StrEnum):
    """How changes that were held back arrive."""

    RIGHT = "right"
    WRONG = "wrong"
    TWICE = "twice"


@dataclass
class Wire:
    """How news travels now."""

    seconds: float = 0.02
    held: bool = False
    """Nothing arrives."""

    order: Order = Order.RIGHT


class Watch:
    """The watch of one kind by one operator; begins with a list of what there is."""

    def __init__(self, store: Store, kind: str, wire: Wire, deliver: Callable[[Change], None]) -> None:
        self._store, self._kind, self._wire, self._deliver = store, kind, wire, deliver
        self._waiting: list[Change] = []
        self._open = True
        store.listeners.append(self._heard)
        self.begin_anew()

    def begin_anew(self) -> None:
        """Lose what is on its way, and list what there is: of what is gone, nothing is told."""
        self._waiting = []
        for found in self._store.every(self._kind, "" if self._kind == names.KIND else f"{names.MANAGED_LABEL}=true"):
            self._heard(self._kind, Change("", deepcopy(found)))

    def close(self) -> None:
        self._open = False
        self._store.listeners.remove(self._heard)

    def _heard(self, kind: str, change: Change) -> None:
        if kind == self._kind:
            self._waiting.append(change)
            asyncio.get_running_loop().call_later(self._wire.seconds, self.arrive)

    def arrive(self) -> None:
        """Deliver what is on its way, unless it is held back."""
        if self._wire.held or not self._open:
            return
        waiting, self._waiting = self._waiting, []
        if self._wire.order is Order.WRONG:
            waiting = waiting[::-1]
        elif self._wire.order is Order.TWICE:
            waiting = [*waiting, *waiting]
        for change in waiting:
            self._deliver(change)
