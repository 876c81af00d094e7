"""A cluster with the operator in it, and a namespace of its own for each test."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

import cluster as clusters
from cluster import Cluster

from .apart import minded_apart
from .beside import Beside
from .install import SYSTEM, install
from .kube import Kube

_NUMBERS = itertools.count(1)
READY = "OMNILEARN_E2E_READY"
"""Set by whoever has installed the operator already (lanes.py)."""


def openly(request: pytest.FixtureRequest) -> AbstractContextManager[None]:
    """Let what takes minutes tell how far it is."""
    capturing = request.config.pluginmanager.getplugin("capturemanager")
    if capturing is None:
        return nullcontext()
    shown: AbstractContextManager[None] = capturing.global_and_fixture_disabled()
    return shown


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A real cluster; where none can be had, tests are skipped with the reason, which in CI is a failure.

    A node that was made for the tests goes with them; its images stay. One that was there before stays.
    """
    was_there = bool(clusters.status())
    try:
        with openly(request):
            made = clusters.up()
    except clusters.ImpossibleError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no cluster can be had: {error}")
    yield made
    if made.provider == "node" and not was_there:
        clusters.down()


@pytest.fixture(scope="session")
def installed(cluster: Cluster, request: pytest.FixtureRequest) -> Cluster:
    """The cluster with the operator in it, by Helm."""
    if READY in os.environ:
        return cluster
    try:
        with openly(request):
            install(cluster)
    except clusters.FailedError as error:
        pytest.fail(f"{error}\n{Kube(cluster, SYSTEM).story()}")
    return cluster


@pytest.fixture
def kube(installed: Cluster, request: pytest.FixtureRequest) -> Iterator[Kube]:
    """A namespace that takes only restricted pods, and goes with the test."""
    yield from namespace(installed, request)


@pytest.fixture(scope="module")
def shared_kube(installed: Cluster, request: pytest.FixtureRequest) -> Iterator[Kube]:
    """The same, for all tests of a file."""
    yield from namespace(installed, request)


@pytest.fixture(scope="module")
def apart(shared_kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    """A job that trains, minded by an operator of its own behind the faulty proxy; for all tests of a file."""
    with minded_apart(shared_kube, tmp_path_factory.mktemp("beside")) as made:
        yield made


@pytest.fixture
def it(apart: Beside) -> Iterator[Beside]:
    """The same without a fault, before and after a test; whatever happens, the operator lives."""
    apart.calm()
    yield apart
    apart.calm()
    assert apart.operator.lives


def namespace(installed: Cluster, request: pytest.FixtureRequest) -> Iterator[Kube]:
    """Make a namespace, and take it away afterwards."""
    kube = Kube(installed, f"e2e-{os.getpid()}-{next(_NUMBERS)}")
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": kube.namespace, "labels": labels}})
    request.node.kube = kube
    yield kube
    kube.cluster.run("delete", "namespace", kube.namespace, "--wait=false")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Attach what has happened in the namespace to a test that fails."""
    report = yield
    kube = next((found for node in reversed(item.listchain()) if (found := getattr(node, "kube", None))), None)
    if report.failed and kube is not None:
        report.sections.append(("the namespace", kube.story()))
        report.sections.append(("the operator", Kube(kube.cluster, SYSTEM).story()[-8000:]))
    return report
