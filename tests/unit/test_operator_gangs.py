"""Pods that a job needs all together: the groups of three schedulers, and clusters that have none of them."""

from __future__ import annotations

from typing import Any

import pytest

from omnilearn_operator.manifests.gang import forbidden_sentence, missing_sentence, pod_group_of
from omnilearn_operator.manifests.place import Place
from omnilearn_operator.manifests.pods import Worker, pod_of
from operations import job_of

_GROUPS = {
    "native": (
        "scheduling.k8s.io/v1beta1",
        {"schedulingPolicy": {"gang": {"minCount": 3}}, "disruptionMode": {"single": {}}},
    ),
    "volcano": ("scheduling.volcano.sh/v1beta1", {"minMember": 3}),
    "coscheduling": ("scheduling.x-k8s.io/v1alpha1", {"minMember": 3}),
}


def pod(gang: str, **spec: Any) -> dict[str, Any]:
    job = job_of(4, gangScheduler=gang, membership={"minWorkers": 3}).to_manifest()
    job["spec"]["workers"][0]["template"]["spec"] |= spec
    whole = type(job_of()).from_manifest(job)
    return pod_of(whole, Worker(whole.spec.workers[0], 0), 0, Place("wss://here", "ca"))


@pytest.mark.parametrize("gang", _GROUPS)
def test_a_group_has_the_job_s_minimum_and_goes_with_the_job(gang: str) -> None:
    group = pod_group_of(job_of(4, gangScheduler=gang, membership={"minWorkers": 3}))
    assert group is not None
    assert (group["apiVersion"], group["spec"]) == _GROUPS[gang]
    assert group["metadata"]["ownerReferences"][0]["uid"] == "job-uid"


def test_without_a_gang_there_is_no_group_and_pods_say_nothing_of_one() -> None:
    assert pod_group_of(job_of()) is None
    assert "schedulerName" not in pod("none")["spec"]
    assert "schedulingGroup" not in pod("none")["spec"]


def test_every_pod_is_of_the_group_in_the_words_of_its_scheduler() -> None:
    volcano, plugins = pod("volcano"), pod("coscheduling")
    assert pod("native")["spec"]["schedulingGroup"] == {"podGroupName": "job"}
    assert volcano["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "job"
    assert volcano["spec"]["schedulerName"] == "volcano"
    assert plugins["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == "job"
    assert plugins["spec"]["schedulerName"] == "scheduler-plugins-scheduler"


def test_a_scheduler_that_the_user_has_named_stays() -> None:
    assert pod("volcano", schedulerName="my-volcano")["spec"]["schedulerName"] == "my-volcano"


def test_a_gang_that_cannot_be_had_gets_a_sentence() -> None:
    job = job_of(gangScheduler="volcano")
    assert "the cluster has no PodGroup of scheduling.volcano.sh/v1beta1: install Volcano" in missing_sentence(job)
    assert "name it in the chart's value gangSchedulers" in forbidden_sentence(job)
