"""Many jobs that come and go: nothing of them is left in the operator. kwok plays their pods."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from aiohttp import ClientError, ClientSession, ClientTimeout
from benchmarks import fakes
from benchmarks.churn import WAVE, churn, judge
from benchmarks.cluster_api import connected
from benchmarks.reporters import Everybody
from benchmarks.subject import numbers_in

import cluster as clusters
from cluster import Cluster

from .conftest import openly
from .install import SYSTEM
from .kube import Kube

_CYCLES = 150


class Installed:
    """The operator that Helm has installed, as its metrics show it."""

    def __init__(self, cluster: Cluster) -> None:
        system = Kube(cluster, SYSTEM)
        pods = [each for each in system.every("pods") if "omnilearn.dev/leader" in each["metadata"].get("labels", {})]
        self._url = f"http://{pods[0]['status']['podIP']}:9090/metrics"
        services = {each["metadata"]["name"]: each["spec"]["clusterIP"] for each in system.every("services")}
        name = next(each for each in services if each.endswith("-coordinator"))
        self.address, self.server_name = (services[name], 7443), f"{name}.{SYSTEM}.svc"

    async def numbers(self, session: ClientSession, *, jobs: bool = False) -> dict[str, float]:
        """Return its metrics."""
        url = self._url if jobs else f"{self._url}/operator"
        try:
            async with session.get(url, timeout=ClientTimeout(total=10)) as answer:
                return numbers_in(await answer.text())
        except (ClientError, TimeoutError):
            return {}


@pytest.fixture
def kwok(installed: Cluster, request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The program that plays nodes and pods."""
    if os.environ.get("OMNILEARN_KUBECONFIG"):
        pytest.skip("a cluster of somebody's own gets no nodes that do not exist")
    try:
        with openly(request):
            return fakes.kwok_program()
    except clusters.ImpossibleError as error:
        pytest.skip(f"kwok cannot be built: {error}")


def test_jobs_that_come_and_go_leave_nothing_in_the_operator(kube: Kube, kwok: Path, tmp_path: Path) -> None:
    operator = Installed(kube.cluster)

    async def play() -> list[dict[str, float]]:
        async with connected(kube.cluster.kubeconfig) as cluster, ClientSession() as session:
            try:
                await cluster.create_all("Node", fakes.nodes_for(10 * WAVE))
                people = Everybody(cluster, kube.namespace, operator.address, operator.server_name)
                return await churn(cluster, kube.namespace, operator, session, people, _CYCLES // WAVE)
            finally:
                await cluster.delete_all("Node", selector="type=kwok")

    with fakes.played(kube.cluster.kubeconfig, kwok, tmp_path / "kwok.log"):
        rows = asyncio.run(play())
    assert [verdict for verdict in judge(rows) if not verdict.met] == []
