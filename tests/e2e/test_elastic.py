"""Workers come and go while a job trains: scaled, evicted, suspended, all gone at once."""

from __future__ import annotations

import json

import pytest

from .jobs import Manifest, group, job
from .kube import Kube
from .storage import make_claim

JOB = "digits"


@pytest.fixture(scope="module")
def running(shared_kube: Kube) -> Kube:
    """A job of three unlike workers that trains for long and saves often."""
    claim = make_claim(shared_kube)
    big = group("a", "500m", EPOCHS="4000")
    small = group("b", "250m", replicas=2, EPOCHS="4000")
    for each in (big, small):
        each["template"]["spec"]["terminationGracePeriodSeconds"] = 10
    spec = {"membership": {"maxWorkers": 3}, "checkpoint": {"claimName": claim, "everySeconds": 5}}
    shared_kube.apply(job(JOB, big, small, **spec))
    shared_kube.until("three members train", lambda: shared_kube.members(JOB) == 3, 240)
    return shared_kube


def workers(kube: Kube) -> set[str]:
    """Return the workers whose pods are there to stay."""
    pods = [pod["metadata"] for pod in kube.pods(JOB) if not _over(pod)]
    return {each["labels"]["omnilearn.dev/worker"] for each in pods}


def _over(pod: Manifest) -> bool:
    return "deletionTimestamp" in pod["metadata"] or pod["status"]["phase"] in ("Succeeded", "Failed")


def test_scaling_down_lets_a_slow_worker_go_and_scaling_up_brings_it_back(running: Kube) -> None:
    # Who is slow is known when the shares have followed the speeds.
    running.until("the largest has more", lambda: shares(running).get("digits-a-0", 0) > 100, 60)
    before = running.status(JOB)
    running.run("scale", "olj", JOB, "--replicas=2")
    running.until("two train", lambda: running.members(JOB) == 2, 60)
    assert "digits-a-0" in workers(running)
    assert len(workers(running)) == 2
    running.run("scale", "olj", JOB, "--replicas=3")
    running.until("three train", lambda: running.members(JOB) == 3, 120)
    after = running.status(JOB)
    assert after["step"] > before["step"]
    assert (after["workers"]["failures"], after["workers"]["preemptions"]) == (0, 0)


def test_scaling_above_what_there_is_is_refused_in_our_words(running: Kube) -> None:
    with pytest.raises(Exception, match="maxWorkers"):
        running.run("scale", "olj", JOB, "--replicas=4")


def test_an_autoscaler_can_read_the_number_of_workers(running: Kube) -> None:
    target = {"apiVersion": "omnilearn.dev/v1alpha1", "kind": "OmniLearnJob", "name": JOB}
    metric = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
    }
    spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 3, "metrics": [metric]}
    running.apply(
        {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": JOB}, "spec": spec}
    )
    running.until("it can read the scale", lambda: "SucceededGetScale" in _reasons_of_the_autoscaler(running), 60)
    running.run("delete", "hpa", JOB)


def _reasons_of_the_autoscaler(kube: Kube) -> set[str]:
    found = kube.get("hpa", JOB) or {}
    return {each["reason"] for each in found.get("status", {}).get("conditions", [])}


def test_another_law_takes_effect_while_the_job_trains(running: Kube) -> None:
    pods = uids(running)
    running.run("patch", "olj", JOB, "--type=merge", "--patch", '{"spec": {"batch": {"law": "Uniform"}}}')
    running.until("all have the same share", lambda: len(shares(running)) == 3 and spread(running) <= 1, 60)
    running.run("patch", "olj", JOB, "--type=merge", "--patch", '{"spec": {"batch": {"law": "Affine"}}}')
    running.until("the largest has more", lambda: shares(running).get("digits-a-0", 0) > 100, 60)
    assert uids(running) == pods


def shares(kube: Kube) -> dict[str, int]:
    return {each["worker"]: each["share"] for each in kube.status(JOB).get("members", [])}


def spread(kube: Kube) -> int:
    return max(shares(kube).values()) - min(shares(kube).values())


def uids(kube: Kube) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in kube.pods(JOB) if not _over(pod)}


def test_a_changed_template_replaces_the_pods_of_its_group_and_no_others(running: Kube) -> None:
    before = uids(running)
    (old,) = (name for name in before if name.startswith("digits-a"))
    path = "/spec/workers/0/template/spec/containers/0/env/-"
    patch = [{"op": "add", "path": path, "value": {"name": "COLOUR", "value": "blue"}}]
    running.run("patch", "olj", JOB, "--type=json", "--patch", json.dumps(patch))
    running.until("it is replaced", lambda: old not in uids(running) and "digits-a-0" in workers(running), 60)
    running.until("three train", lambda: running.members(JOB) == 3, 120)
    kept = {name: uid for name, uid in uids(running).items() if name in before}
    assert kept == {name: uid for name, uid in before.items() if not name.startswith("digits-a")}
    assert running.status(JOB)["workers"]["preemptions"] == 0


def test_an_evicted_pod_is_a_preemption_and_is_replaced(running: Kube) -> None:
    name = next(pod["metadata"]["name"] for pod in running.pods(JOB) if not _over(pod))
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": running.namespace}}
    path = f"/api/v1/namespaces/{running.namespace}/pods/{name}/eviction"
    running.run("create", "--raw", path, "--filename", "-", given=json.dumps(body))
    running.until("it is counted", lambda: running.status(JOB)["workers"]["preemptions"] == 1, 30)
    running.until("three train", lambda: running.members(JOB) == 3, 120)
    assert any(reason == "WorkerPreempted" for reason, _ in running.events(JOB))
    assert running.status(JOB)["workers"]["failures"] == 0


def test_a_suspended_job_keeps_its_progress_and_goes_on(running: Kube) -> None:
    step = running.status(JOB)["step"]
    running.run("patch", "olj", JOB, "--type=merge", "--patch", '{"spec": {"suspend": true}}')
    running.until("suspended", lambda: running.status(JOB)["phase"] == "Suspended" and not workers(running), 60)
    running.run("patch", "olj", JOB, "--type=merge", "--patch", '{"spec": {"suspend": false}}')
    running.until("three train", lambda: running.members(JOB) == 3, 120)
    assert running.until("it has gone on", lambda: running.status(JOB)["step"] > step, 60)


def test_a_job_that_has_lost_everybody_resumes_from_its_last_checkpoint(running: Kube) -> None:
    step = running.status(JOB)["step"]
    running.run("delete", "pods", "--selector", f"omnilearn.dev/job={JOB}", "--grace-period=0", "--force")
    running.until("it waits", lambda: running.members(JOB) == 0, 60)
    running.until("three train", lambda: running.members(JOB) == 3, 180)
    resumed = running.status(JOB)["step"]
    assert resumed > step / 2  # far from the start: it has saved every five seconds
    assert running.status(JOB)["workers"]["failures"] == 0
