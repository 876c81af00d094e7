"""Workers come and go while a job trains: scaled, evicted, suspended, all gone at once; the job is edited meanwhile."""

from __future__ import annotations

import json

import pytest

from . import node
from .jobs import Manifest, group, job
from .kube import Kube, is_over
from .storage import make_claim

# A name of its own: a drain looks for it on the whole node.
JOB = "elastic"
# Where the workers of a group wait for Kueue, if there is one
QUEUE = {"kueue.x-k8s.io/queue-name": "spare"}


@pytest.fixture(scope="module")
def running(shared_kube: Kube) -> Kube:
    """A job of three unlike workers that trains for long and saves often."""
    claim = make_claim(shared_kube)
    big = group("a", "700m", EPOCHS="4000")
    small = group("b", "300m", replicas=2, EPOCHS="4000")
    for each in (big, small):
        each["template"]["spec"]["terminationGracePeriodSeconds"] = 10
    big["template"]["metadata"] = {"labels": QUEUE}
    spec = {"membership": {"maxWorkers": 3}, "checkpoint": {"claimName": claim, "everySeconds": 5}}
    shared_kube.apply(job(JOB, big, small, **spec))
    shared_kube.until("three members train", lambda: shared_kube.members(JOB) == 3, 240)
    return shared_kube


def workers(kube: Kube) -> set[str]:
    """Return the workers whose pods are there to stay."""
    pods = [pod["metadata"] for pod in kube.pods(JOB) if not is_over(pod)]
    return {each["labels"]["omnilearn.dev/worker"] for each in pods}


def changed(kube: Kube, **spec: object) -> None:
    """Edit the job."""
    kube.run("patch", "olj", JOB, "--type=merge", "--patch", json.dumps({"spec": spec}))


def numbers(kube: Kube, small: int) -> None:
    """Have the job want so many small workers, and one large one."""
    patch = [
        {"op": "replace", "path": "/spec/membership/maxWorkers", "value": small + 1},
        {"op": "replace", "path": "/spec/workers/1/replicas", "value": small},
    ]
    kube.run("patch", "olj", JOB, "--type=json", "--patch", json.dumps(patch))


def test_the_label_of_a_queue_is_that_of_the_pods_of_its_group(running: Kube) -> None:
    queues = {
        pod["metadata"]["labels"]["omnilearn.dev/worker"]: QUEUE.items() <= pod["metadata"]["labels"].items()
        for pod in running.pods(JOB)
    }
    assert queues == {"elastic-a-0": True, "elastic-b-0": False, "elastic-b-1": False}


def test_scaling_down_lets_a_slow_worker_go_and_an_autoscaler_brings_it_back(running: Kube) -> None:
    # Who is slow is known when the shares have followed the speeds.
    running.until("the largest has more", lambda: shares(running).get("elastic-a-0", 0) > 100, 60)
    before = running.status(JOB)
    running.run("scale", "olj", JOB, "--replicas=2")
    running.until("two train", lambda: running.members(JOB) == 2, 60)
    assert "elastic-a-0" in workers(running)
    assert len(workers(running)) == 2
    running.apply(autoscaler(3, 3))
    running.until("three train", lambda: running.train(JOB, 3), 120)
    assert {("AbleToScale", "True")} <= conditions_of_the_autoscaler(running)
    running.run("delete", "hpa", JOB)
    after = running.status(JOB)
    assert after["step"] > before["step"]
    assert (after["workers"]["failures"], after["workers"]["preemptions"]) == (0, 0)


def test_scaling_above_what_there_is_is_refused_in_our_words(running: Kube) -> None:
    with pytest.raises(Exception, match="maxWorkers"):
        running.run("scale", "olj", JOB, "--replicas=4")


def autoscaler(least: int, most: int) -> Manifest:
    """Return one that keeps to its bounds; more than that it could do only with metrics."""
    target = {"apiVersion": "omnilearn.dev/v1alpha1", "kind": "OmniLearnJob", "name": JOB}
    goal = {"type": "Utilization", "averageUtilization": 80}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": goal}}
    spec = {"scaleTargetRef": target, "minReplicas": least, "maxReplicas": most, "metrics": [metric]}
    return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": JOB}, "spec": spec}


def conditions_of_the_autoscaler(kube: Kube) -> set[tuple[str, str]]:
    found = kube.get("hpa", JOB) or {}
    return {(each["type"], each["status"]) for each in found.get("status", {}).get("conditions", [])}


def test_another_law_and_other_bounds_take_effect_while_the_job_trains(running: Kube) -> None:
    pods = uids(running)
    changed(running, batch={"law": "Uniform"})
    running.until("all have the same share", lambda: len(shares(running)) == 3 and spread(running) <= 1, 60)
    changed(running, batch={"law": "Affine"})
    running.until("the largest has more", lambda: shares(running).get("elastic-a-0", 0) > 100, 60)
    changed(running, batch={"minPerWorker": 80})
    running.until("the others have as much", lambda: len(shares(running)) == 3 and least(running) >= 80, 60)
    changed(running, batch={"minPerWorker": 1})
    assert uids(running) == pods


def shares(kube: Kube) -> dict[str, int]:
    return {each["worker"]: each["share"] for each in kube.status(JOB).get("members", [])}


def spread(kube: Kube) -> int:
    return max(shares(kube).values()) - min(shares(kube).values())


def least(kube: Kube) -> int:
    return min(shares(kube).values())


def uids(kube: Kube) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in kube.pods(JOB) if not is_over(pod)}


def test_a_changed_template_replaces_the_pods_of_its_group_and_no_others(running: Kube) -> None:
    before = uids(running)
    (old,) = (name for name in before if name.startswith("elastic-a"))
    path = "/spec/workers/0/template/spec/containers/0/env/-"
    patch = [{"op": "add", "path": path, "value": {"name": "COLOUR", "value": "blue"}}]
    running.run("patch", "olj", JOB, "--type=json", "--patch", json.dumps(patch))
    running.until("it is replaced", lambda: old not in uids(running) and "elastic-a-0" in workers(running), 60)
    running.until("three train", lambda: running.train(JOB, 3), 120)
    kept = {name: uid for name, uid in uids(running).items() if name in before}
    assert kept == {name: uid for name, uid in before.items() if not name.startswith("elastic-a")}
    assert running.status(JOB)["workers"]["preemptions"] == 0


def test_an_evicted_pod_is_a_preemption_and_is_replaced(running: Kube) -> None:
    name = next(pod["metadata"]["name"] for pod in running.pods(JOB) if not is_over(pod))
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": running.namespace}}
    path = f"/api/v1/namespaces/{running.namespace}/pods/{name}/eviction"
    running.run("create", "--raw", path, "--filename", "-", given=json.dumps(body))
    running.until("it is counted", lambda: running.status(JOB)["workers"]["preemptions"] == 1, 60)
    running.until("three train", lambda: running.train(JOB, 3), 120)
    assert any(reason == "WorkerPreempted" for reason, _ in running.events(JOB))
    assert running.status(JOB)["workers"]["failures"] == 0


def test_a_worker_whose_node_is_not_ready_and_who_is_silent_is_replaced(running: Kube) -> None:
    kubelet = node.component("kubelet")
    if not kubelet:
        pytest.skip("only where this machine is the node can its kubelet be frozen")
    pod = next(pod for pod in running.pods(JOB) if not is_over(pod) and pod["metadata"]["name"].startswith("elastic-b"))
    name, before = pod["metadata"]["name"], running.status(JOB)["workers"]["preemptions"]
    # What the control plane does after a minute, and the kubelet would undo
    patch = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    with node.frozen(node.processes_of(pod["metadata"]["uid"])):
        with node.frozen(kubelet):
            running.run("patch", "pod", name, "--subresource=status", "--patch", json.dumps(patch))
            running.until("it is counted", lambda: running.status(JOB)["workers"]["preemptions"] == before + 1, 60)
            running.until("there is another", lambda: len(set(uids(running)) - {name}) == 3, 60)
        running.until("it goes, as its node is back", lambda: name not in uids(running), 60)
    told = [message for _, message in running.events(JOB)]
    assert any("its node is not ready, and nothing was heard of it for 3 s" in each for each in told)
    assert any("was taken away: NodeNotReady" in each for each in told)
    running.until("three train", lambda: running.train(JOB, 3), 120)


def test_a_suspended_job_keeps_its_progress_and_goes_on_with_other_numbers(running: Kube) -> None:
    changed(running, suspend=True)
    running.until("suspended", lambda: running.status(JOB)["phase"] == "Suspended" and not workers(running), 60)
    step = running.status(JOB)["step"]
    numbers(running, small=1)
    changed(running, suspend=False)
    steps: list[int] = []

    def has_gone_on() -> bool:
        steps.append(running.status(JOB)["step"])
        return bool(steps[-1] > step + 20)

    running.until("two train", lambda: running.members(JOB) == 2, 120)
    running.until("it has gone on", has_gone_on, 60)
    assert min(steps) >= step  # a job that begins anew counts from nothing
    assert workers(running) == {"elastic-a-0", "elastic-b-0"}
    numbers(running, small=2)
    running.until("three train", lambda: running.train(JOB, 3), 120)


def test_a_job_whose_only_node_is_drained_waits_and_resumes_from_its_last_checkpoint(running: Kube) -> None:
    nodes = [each["metadata"]["name"] for each in json.loads(running.run("get", "nodes", "--output", "json"))["items"]]
    if len(nodes) > 1:
        pytest.skip("where there are other nodes, the pods go there")
    step = running.status(JOB)["step"]
    running.run(
        "drain", *nodes, "--pod-selector", f"omnilearn.dev/job={JOB}", "--delete-emptydir-data", "--timeout=60s"
    )
    try:
        running.until("it waits", lambda: running.members(JOB) == 0, 60)
        running.until("why is told", lambda: "Unschedulable" in running.condition(JOB, "Ready")["message"], 60)
    finally:
        running.run("uncordon", *nodes)
    running.until("three train", lambda: running.train(JOB, 3), 180)
    assert running.status(JOB)["step"] > step / 2  # far from the start: it has saved every five seconds
    assert running.status(JOB)["workers"]["failures"] == 0
    told = [message for reason, message in running.events(JOB) if reason == "WorkerPreempted"]
    assert any("EvictionByEvictionAPI" in each for each in told)


def test_a_job_that_has_lost_everybody_without_a_word_resumes_from_its_last_checkpoint(running: Kube) -> None:
    step = running.status(JOB)["step"]
    running.run("delete", "pods", "--selector", f"omnilearn.dev/job={JOB}", "--grace-period=0", "--force")
    running.until("it waits", lambda: running.members(JOB) == 0, 60)
    running.until("three train", lambda: running.train(JOB, 3), 180)
    assert running.status(JOB)["step"] > step / 2
    assert running.status(JOB)["workers"]["failures"] == 0


def test_a_deadline_that_is_shortened_ends_the_job(running: Kube) -> None:
    changed(running, activeDeadlineSeconds=5)
    running.until("failed", lambda: running.condition(JOB, "Failed").get("status") == "True", 60)
    failed = running.condition(JOB, "Failed")
    assert failed["reason"] == "ActiveDeadlineExceeded"
    assert "not complete 5 s after its first step (activeDeadlineSeconds), not counting" in failed["message"]
    running.until("the pods go", lambda: not workers(running), 60)
