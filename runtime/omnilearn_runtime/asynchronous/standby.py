"""The next in line: asks the server for its state every now and then, to go on with it should the server be lost."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from omnilearn_runtime import codec
from omnilearn_runtime.group import Group

from .client import Client
from .frames import Kind

log = logging.getLogger("omnilearn")

_EVERY_SECONDS = 2.0


class Standby:
    """A thread that keeps the newest state of the server, if this worker would be the next one."""

    def __init__(self, who: tuple[str, int], group: Callable[[], Group | None]) -> None:
        self._who, self._group = who, group
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._round = -1
        self._tree: dict[str, Any] | None = None
        threading.Thread(target=self._run, name="omnilearn-standby", daemon=True).start()

    def close(self) -> None:
        """Ask no more."""
        self._stop.set()

    def newer_than(self, round_: int) -> dict[str, Any] | None:
        """Return the state that was kept, if it is of a later round."""
        with self._lock:
            return self._tree if self._round > round_ else None

    def forget(self) -> None:
        """Drop what was kept: all have met since."""
        with self._lock:
            self._round, self._tree = -1, None

    def _run(self) -> None:
        while not self._stop.wait(_EVERY_SECONDS):
            group = self._group()
            if group is None or group.rank != 1 or group.server is None:
                continue
            try:
                self._ask(group, group.server)
            except (OSError, ValueError, codec.DamagedError) as error:
                log.debug("the server's state could not be had: %s", error)

    def _ask(self, group: Group, place: tuple[str, int]) -> None:
        client = Client.to(place, lambda: self._stop.is_set() or self._group() is not group)
        try:
            worker, attempt = self._who
            text = {"worker": worker, "attempt": attempt, "holds": self._round, "generation": group.id.number}
            answer = client.ask(Kind.STANDBY, text)
            tree = client.state() if answer.kind is Kind.STATE else None
        finally:
            client.close()
        if tree is not None and self._group() is group:
            with self._lock:
                self._round, self._tree = int(tree["progress"]["round"]), tree
