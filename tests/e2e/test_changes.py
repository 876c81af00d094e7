"""What happens to a running job: pods are deleted and resized, and the others go on."""

from __future__ import annotations

import json
import time

import pytest

from .jobs import Manifest, group, job
from .kube import Kube

JOB = "digits"


@pytest.fixture(scope="module")
def running(shared_kube: Kube) -> Kube:
    """A job of two workers that trains for long."""
    shared_kube.apply(job(JOB, group("a", "500m", replicas=2, EPOCHS="4000")))
    shared_kube.until("two members train", lambda: shared_kube.members(JOB) == 2, 240)
    return shared_kube


def shares(kube: Kube) -> dict[str, int]:
    """Return the shares that the status shows, by worker."""
    return {each["worker"]: each["share"] for each in kube.status(JOB).get("members", [])}


def uids(kube: Kube) -> dict[str, str]:
    """Return the UIDs of the pods, by name."""
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in kube.pods(JOB)}


def resized(cpu: str) -> Manifest:
    """Return the change of a pod's CPU limit."""
    resources = {"limits": {"cpu": cpu}}
    return {"spec": {"containers": [{"name": "trainer", "resources": resources}]}}


def test_a_smaller_cpu_limit_moves_the_shares_without_a_restart(running: Kube) -> None:
    before = uids(running)
    patch = json.dumps(resized("200m"))
    running.run("patch", "pod", "digits-a-1-0", "--subresource", "resize", "--patch", patch)
    running.until(
        "the share has followed",
        lambda: (found := shares(running)) and found["digits-a-0"] > 1.6 * found["digits-a-1"],
        120,
    )
    assert uids(running) == before


def test_a_deleted_pod_is_replaced_and_joins_while_the_others_go_on(running: Kube) -> None:
    before, survivor = running.status(JOB), uids(running)["digits-a-0-0"]
    running.run("delete", "pod", "digits-a-1-0", "--wait=false")
    running.until("the next attempt has a share", lambda: "digits-a-1-1" in uids(running), 60)
    running.until("it was taken in", lambda: running.status(JOB)["generation"] >= before["generation"] + 2, 240)
    running.until("both train again", lambda: running.train(JOB, 2), 60)
    assert running.status(JOB)["step"] > before["step"]
    assert uids(running)["digits-a-0-0"] == survivor
    assert running.status(JOB)["workers"]["preemptions"] == 1
    assert any(reason == "WorkerPreempted" for reason, _ in running.events(JOB))


def test_a_running_job_is_deleted_with_all_it_has_within_seconds(running: Kube) -> None:
    running.run("delete", "olj", JOB, "--wait=false")
    began = time.monotonic()
    kinds = "pods,services,networkpolicies"
    running.until("everything is gone", lambda: not running.every(kinds, f"omnilearn.dev/job={JOB}"), 60)
    assert time.monotonic() - began < 30  # the grace period of a pod that does not want to go
