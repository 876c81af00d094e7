"""A replica through its reigns: it stops before it gives the Lease back, and may lead again."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from leases import NAME, LeaseApi, until
from omnilearn_operator import running
from omnilearn_operator.api import Counted
from omnilearn_operator.metrics import Shown
from omnilearn_operator.reign import Reign
from omnilearn_operator.running import Operator
from omnilearn_operator.settings import OperatorSettings

_LIMIT = 30.0


class Cluster(LeaseApi):
    """An API in memory that has the CRD."""

    def __init__(self) -> None:
        super().__init__()
        self.counted = Counted()

    async def resources(self, version: str) -> set[str]:
        return {"omnilearnjobs"}


class Parts:
    """Stands for all parts of an operator that leads."""

    made: list[Parts]
    story: list[str]
    api: Cluster

    def __init__(
        self, settings: OperatorSettings, api: Cluster, reign: Reign, take_signals: Callable[[], None]
    ) -> None:
        self.reign, self.looked, self.missing = reign, asyncio.get_running_loop().time(), ""
        self.ends = asyncio.Event()
        self.made.append(self)

    @property
    def shown(self) -> Shown:
        nobody: Any = type("Nobody", (), {"jobs": {}})
        return Shown(nobody, lambda: iter(()), 0, {})

    async def run(self) -> None:
        self.story.append("leads")
        try:
            await self.ends.wait()
            raise RuntimeError("a part has failed")
        finally:
            self.story.append(f"ended, deciding {self.reign.holds()}, held by {self._holder()}")

    async def hang_up(self) -> None:
        self.story.append(f"hung up, deciding {self.reign.holds()}")

    def _holder(self) -> str:
        return self.api.lease.holder.partition("_")[0] or "nobody"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    Parts.made, Parts.story, Parts.api = [], [], Cluster()
    monkeypatch.setattr(running, "Leader", Parts)
    return Parts.api


def play(api: Cluster, scene: Callable[[Operator], Any]) -> None:
    async def run() -> None:
        settings = OperatorSettings("system", pod="a", pod_uid="1", lease_seconds=1, metrics_port=0, health_port=0)
        operator = Operator(settings, api)  # type: ignore[arg-type]  # as much of a client as is needed
        life = asyncio.create_task(operator.run())
        try:
            async with asyncio.timeout(_LIMIT):
                await until(lambda: "leads" in Parts.story)
                await scene(operator)
                await asyncio.gather(life, return_exceptions=True)
        finally:
            life.cancel()

    asyncio.run(run())


def end() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def test_a_signal_ends_everything_before_the_lease_is_given_back(api: Cluster) -> None:
    async def scene(operator: Operator) -> None:
        assert b"omnilearn_leads 1.0" in operator._metrics.own_text()
        end()

    play(api, scene)
    assert Parts.story == ["leads", "hung up, deciding False", "ended, deciding False, held by a"]
    assert api.lease.holder == ""


def test_an_operator_that_loses_the_api_server_stops_and_leads_again_later(api: Cluster) -> None:
    async def scene(operator: Operator) -> None:
        api.away = True
        await until(lambda: len(Parts.story) == 3)
        assert b"omnilearn_leads 0.0" in operator._metrics.own_text()
        await until(lambda: operator._missing() == "the Lease")
        api.away = False
        await until(lambda: len(Parts.made) == 2)
        assert b"omnilearn_reigns_total 2.0" in operator._metrics.own_text()
        end()

    play(api, scene)
    assert Parts.story[:4] == ["leads", "hung up, deciding False", "ended, deciding False, held by a", "leads"]
    assert Parts.made[1].reign.number == Parts.made[0].reign.number + 1


def test_one_whose_lease_was_taken_waits_ready_to_take_over(api: Cluster) -> None:
    async def scene(operator: Operator) -> None:
        taken = {"holderIdentity": "b_2", "leaseDurationSeconds": 60}
        await api.patch("Lease", "system", NAME, {"metadata": {}, "spec": taken})
        await until(lambda: len(Parts.story) == 3)
        await until(lambda: operator._leader is None)
        assert operator._missing() == ""
        end()

    play(api, scene)
    assert (len(Parts.made), api.lease.holder) == (1, "b_2")


def test_a_failure_of_a_part_is_no_reason_to_let_others_wait(api: Cluster) -> None:
    async def scene(_: Operator) -> None:
        Parts.made[0].ends.set()

    play(api, scene)
    assert api.lease.holder == ""
