"""The operator itself: it may go at any time, and it lets a pod speak only for itself."""

from __future__ import annotations

import pytest

from cluster import Cluster

from .install import SYSTEM, helm
from .jobs import group, job
from .kube import Kube

JOB = "digits"
_OPERATOR = "app.kubernetes.io/name=omnilearn-operator"

# What a worker would do that says it were another one.
_AS_ANOTHER = """
import sys
from dataclasses import replace
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from omnilearn_core.api.names import worker_path
from omnilearn_runtime.environment import read
environment = read()
address = environment.coordinator + worker_path(environment.job, sys.argv[1])
headers = {"Authorization": "Bearer " + (environment.fresh_token() if sys.argv[2] == "own" else "nonsense")}
try:
    connect(address, additional_headers=headers, ssl=environment.fresh_tls(), proxy=None).close()
    print("let in")
except InvalidStatus as error:
    print(error.response.status_code, error.response.body.decode())
"""


@pytest.fixture(scope="module")
def running(shared_kube: Kube) -> Kube:
    """A job of two workers that trains for long."""
    shared_kube.apply(job(JOB, group("a", "500m", replicas=2, EPOCHS="4000")))
    shared_kube.until("two members train", lambda: shared_kube.members(JOB) == 2, 240)
    return shared_kube


def said(kube: Kube, worker: str, token: str) -> str:
    return kube.run("exec", "digits-a-0-0", "--", "python", "-c", _AS_ANOTHER, worker, token)


def test_a_pod_cannot_speak_for_another(running: Kube) -> None:
    assert said(running, "digits-a-1", "own").startswith("403 ")


def test_nobody_gets_in_without_a_good_token(running: Kube) -> None:
    assert said(running, "digits-a-0", "bad").startswith("401 ")


def test_training_goes_on_while_the_operator_is_replaced(running: Kube) -> None:
    system = Kube(running.cluster, SYSTEM)
    before, pods = running.status(JOB), {pod["metadata"]["uid"] for pod in running.pods(JOB)}
    old = system.every("pods", _OPERATOR)[0]["metadata"]["name"]
    system.run("delete", "pod", old, "--grace-period=0", "--force")
    running.until("a new operator has adopted the job", lambda: "CoordinatorAdopted" in reasons(running), 90)
    running.until("it trains", lambda: running.status(JOB)["step"] > before["step"] + 5, 60)
    after = running.status(JOB)
    assert {pod["metadata"]["uid"] for pod in running.pods(JOB)} == pods
    assert (after["phase"], after["generation"]) == ("Running", before["generation"])
    assert (after["workers"]["failures"], after["workers"]["preemptions"]) == (0, 0)


def reasons(kube: Kube) -> set[str]:
    return {reason for reason, _ in kube.events(JOB)}


def test_the_chart_s_own_test_passes(installed: Cluster) -> None:
    assert "Phase:          Succeeded" in helm(installed, "test", "omnilearn", "--logs")
