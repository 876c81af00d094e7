"""The operator comes, changes and goes by Helm while a job trains: the job is not disturbed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import Cluster

from .install import CHART, SYSTEM, helm, release
from .jobs import group, job
from .kube import Kube

JOB = "digits"
_OPERATOR = "app.kubernetes.io/name=omnilearn-operator"


@pytest.fixture(scope="module")
def running(shared_kube: Kube) -> Iterator[Kube]:
    """A job of two workers that trains for long; whatever happens, the operator is there afterwards."""
    shared_kube.apply(job(JOB, group("a", "500m", replicas=2, EPOCHS="4000")))
    shared_kube.until("two members train", lambda: shared_kube.members(JOB) == 2, 240)
    yield shared_kube
    release(shared_kube.cluster)


@pytest.fixture
def next_chart(tmp_path: Path) -> Path:
    """The chart as it would be under the next version, with something in it that makes the operator's pod another."""
    chart = tmp_path / "chart"
    shutil.copytree(CHART, chart)
    about = (chart / "Chart.yaml").read_text(encoding="utf-8")
    (chart / "Chart.yaml").write_text(re.sub(r"(?m)^version: .*$", "version: 99.0.0", about), encoding="utf-8")
    return chart


def uids(kube: Kube) -> set[str]:
    return {pod["metadata"]["uid"] for pod in kube.pods(JOB)}


def operators(cluster: Cluster) -> set[str]:
    return {pod["metadata"]["uid"] for pod in Kube(cluster, SYSTEM).every("pods", _OPERATOR)}


def goes_on(kube: Kube, step: int) -> bool:
    """Tell whether a job has made ten steps more, under an operator that tells of them."""
    return bool(kube.status(JOB)["step"] > step + 10)


def test_an_upgrade_does_not_disturb_a_job_and_can_be_taken_back(running: Kube, next_chart: Path) -> None:
    before, pods, old = running.status(JOB), uids(running), operators(running.cluster)
    release(running.cluster, "--set", "podAnnotations.version=next", chart=next_chart)
    assert "omnilearn-operator-99.0.0" in helm(running.cluster, "list")
    running.until("it trains under the new operator", lambda: goes_on(running, before["step"]), 90)
    assert not operators(running.cluster) & old
    step = running.status(JOB)["step"]
    helm(running.cluster, "rollback", "omnilearn", "--wait")
    running.until("it trains under the old operator", lambda: goes_on(running, step), 90)
    after = running.status(JOB)
    assert uids(running) == pods
    assert (after["generation"], after["phase"]) == (before["generation"], "Running")
    assert (after["workers"]["failures"], after["workers"]["preemptions"]) == (0, 0)


def test_a_job_outlives_the_operator_and_is_taken_over_by_the_next(running: Kube) -> None:
    before, pods = running.status(JOB), uids(running)
    helm(running.cluster, "uninstall", "omnilearn", "--wait")
    assert running.get("crd", "omnilearnjobs.omnilearn.dev") is not None
    assert {pod["status"]["phase"] for pod in running.pods(JOB)} == {"Running"}
    release(running.cluster)
    running.until("it trains under the new operator", lambda: goes_on(running, before["step"]), 90)
    after = running.status(JOB)
    assert uids(running) == pods
    assert (after["generation"], after["workers"]["failures"]) == (before["generation"], 0)
