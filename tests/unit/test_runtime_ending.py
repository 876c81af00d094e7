"""How long a script that has come to its end waits to be released."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import pytest

from omnilearn_core.api.messages import Release
from omnilearn_runtime.ending import Exits
from omnilearn_runtime.environment import Environment
from omnilearn_runtime.faults import Faults
from omnilearn_runtime.membership import Membership
from omnilearn_runtime.saving import Saving
from omnilearn_runtime.waiting import AbandonedError, Board

_LIMIT_SECONDS = 10.0


@dataclass
class Abandoned:
    """What a worker knows whose coordinator is gone for longer than it waits for one."""

    orphaned: bool = True
    released: Release | None = None
    asked: threading.Event = field(default_factory=threading.Event)
    board: Board = field(default_factory=Board)

    def lets_go(self) -> bool:
        self.asked.set()
        return self.released is not None

    def wait(self, true: Callable[[], bool], _: float) -> bool:
        return self.board.wait(true, _LIMIT_SECONDS)


def exits(coordinator: str, known: Abandoned) -> Exits:
    environment = Environment(job="j", worker="j-a-0", coordinator=coordinator)
    return Exits(environment, cast(Membership, known), cast(Saving, None), cast(Faults, None))


def test_without_its_launcher_a_local_worker_gives_up() -> None:
    with pytest.raises(AbandonedError):
        exits("ws://127.0.0.1:1", Abandoned())._await_news(None)


def test_in_a_cluster_it_waits_until_there_is_an_operator_again() -> None:
    known, ended = Abandoned(), threading.Event()

    def wait() -> None:
        exits("wss://operator:1", known)._await_news(None)
        ended.set()

    waits = threading.Thread(target=wait)
    waits.start()
    assert known.asked.wait(_LIMIT_SECONDS)
    assert not ended.is_set()
    known.released, known.orphaned = Release(why="the script has come to its end on all 1 members"), False
    known.board.wake()
    waits.join(_LIMIT_SECONDS)
    assert ended.is_set()
