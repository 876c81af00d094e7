"""Unlike pods train one model: what a user applies, sees and gets."""

from __future__ import annotations

import json
import re

import pytest

from .install import SYSTEM
from .jobs import Manifest, group, job
from .kube import Kube

JOB = "digits"
_EPOCHS = 20
_SAMPLES = 1437 * _EPOCHS
_CPUS = {"digits-gpu-0": 0.8, "digits-cpu-0": 0.3, "digits-cpu-1": 0.3}


@pytest.fixture(scope="module")
def running(shared_kube: Kube) -> Kube:
    """A job with a "gpu" group (an extended resource, more CPU) and a "cpu" group, training."""
    # A net that is large enough for a step to take longer than the periods in which CPU limits are kept.
    epochs, width = str(_EPOCHS), "96"
    big = group("gpu", "800m", limits={"example.com/gpu": "1"}, EPOCHS=epochs, WIDTH=width)
    small = group("cpu", "300m", replicas=2, EPOCHS=epochs, WIDTH=width)
    for each in (big, small):
        # They ask for all that they may use: where the node is busy, all of them get less in the same proportion.
        del each["template"]["spec"]["containers"][0]["resources"]["requests"]
    shared_kube.apply(job(JOB, big, small, membership={"minWorkers": 3}))
    shared_kube.until("three members train", lambda: shared_kube.members(JOB) == 3, 240)
    return shared_kube


def shares(kube: Kube) -> dict[str, int]:
    """Return the shares that the status shows, by worker."""
    return {each["worker"]: each["share"] for each in kube.status(JOB).get("members", [])}


def annotated(pod: Manifest) -> tuple[str, int]:
    """Return a pod's worker and the share that its annotation says."""
    metadata = pod["metadata"]
    return metadata["labels"]["omnilearn.dev/worker"], int(metadata["annotations"].get("omnilearn.dev/share", 0))


def test_shares_settle_in_proportion_to_the_limits(running: Kube) -> None:
    def settled() -> bool:
        found, total = shares(running), sum(_CPUS.values())
        given = sum(found.values())
        parts = {worker: cpus / total for worker, cpus in _CPUS.items()}
        return bool(found) and all(abs(found[worker] / given - part) <= 0.1 * part for worker, part in parts.items())

    running.until("the shares follow the CPU limits", settled, 120)


def in_the_pod(kube: Kube, worker: str) -> int:
    """Return the share that a pod is told by its volume."""
    return int(kube.run("exec", f"{worker}-0", "--", "cat", "/var/run/omnilearn/share") or 0)


def test_annotations_volumes_status_and_metrics_agree_on_the_shares(running: Kube) -> None:
    def agree() -> bool:
        status = shares(running)
        pods = dict(annotated(pod) for pod in running.pods(JOB))
        if any(in_the_pod(running, worker) != share for worker, share in status.items()):
            return False
        metrics = dict(re.findall(r'omnilearn_share{[^}]*worker="([^"]+)"[^}]*} ([0-9.]+)', scraped(running)))
        return bool(status) and status == pods == {worker: round(float(share)) for worker, share in metrics.items()}

    running.until("all say the same", agree, 60)


def scraped(kube: Kube) -> str:
    """Return the operator's metrics, by way of the API server's proxy to its pod."""
    system = Kube(kube.cluster, SYSTEM)
    pod = system.every("pods", "app.kubernetes.io/name=omnilearn-operator")[0]["metadata"]["name"]
    return kube.cluster.run("get", "--raw", f"/api/v1/namespaces/{SYSTEM}/pods/{pod}:9090/proxy/metrics")


def test_a_job_that_trains_tells_its_story_in_columns(running: Kube) -> None:
    header, line = running.run("get", "olj", JOB).splitlines()[:2]
    assert header.split() == ["NAME", "STATE", "WORKERS", "STEP", "PROGRESS", "SAMPLES/S", "IMBALANCE", "AGE"]
    assert line.split()[1:3] == ["Running", "3/3"]


def test_the_job_completes_with_every_sample_exactly_once_and_the_expected_accuracy(running: Kube) -> None:
    running.until("complete", lambda: running.condition(JOB, "Complete").get("status") == "True", 300)
    said = [
        json.loads(pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"]) for pod in running.pods(JOB)
    ]
    assert [(each["lost"], each["doubled"], each["samples"]) for each in said] == [(0, 0, _SAMPLES)] * 3
    assert len({each["parameterHash"] for each in said}) == 1
    assert running.status(JOB)["logged"]["accuracy"] > 0.95


def test_a_deleted_job_leaves_nothing(running: Kube) -> None:
    running.run("delete", "olj", JOB, "--wait=false")
    kinds = "pods,services,networkpolicies"
    running.until("everything is gone", lambda: not running.every(kinds, f"omnilearn.dev/job={JOB}"), 60)
