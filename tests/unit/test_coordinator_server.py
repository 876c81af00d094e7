"""Where the coordinator puts a worker that only serves."""

from __future__ import annotations

from coordination import Scene
from omnilearn_core.api.messages import Change
from omnilearn_core.api.strategy import Asynchronous, Strategy, StrategyType


def test_a_worker_that_only_serves_is_the_first_whenever_it_comes() -> None:
    strategy = Strategy(type=StrategyType.ASYNCHRONOUS, asynchronous=Asynchronous(server_group="s"))
    scene = Scene(expected=2, strategy=strategy)
    one, two, server = (f"{scene.state.settings.name}-{rest}" for rest in ("a-0", "a-1", "s-0"))
    scene.joins(one, two)
    scene.passes()
    scene.enters(one, two)
    scene.joins(server)
    scene.passes()
    assert list(scene.newest.names) == [server, one, two]
    assert scene.newest.change is Change.PLANNED
