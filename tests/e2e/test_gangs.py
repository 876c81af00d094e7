"""Jobs that ask for a gang scheduler: a sentence where there is none, and a group where there is one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cluster import Cluster

from .install import release
from .jobs import Manifest, group, job
from .kube import Kube

_VOLCANO = "scheduling.volcano.sh"


def crd() -> Manifest:
    """Return the part of Volcano that the operator talks to: its PodGroups."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"podgroups.{_VOLCANO}"},
        "spec": {
            "group": _VOLCANO,
            "scope": "Namespaced",
            "names": {"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup"},
            "versions": [version],
        },
    }


@pytest.fixture
def allowed(installed: Cluster) -> Iterator[None]:
    """The operator may make groups for two schedulers, neither of which is there."""
    release(installed, "--set", "gangSchedulers={volcano,native}")
    yield
    release(installed)


def says(kube: Kube, name: str, words: str) -> None:
    kube.until("told", lambda: words in kube.condition(name, "Ready").get("message", ""), 40)


def test_a_scheduler_that_the_installation_does_not_name_is_told(kube: Kube) -> None:
    kube.apply(job("gang", group("a", "100m"), gangScheduler="coscheduling"))
    says(kube, "gang", "name it in the chart's value gangSchedulers")


def test_a_scheduler_that_the_cluster_does_not_have_is_told(kube: Kube, allowed: None) -> None:
    kube.apply(job("native", group("a", "100m"), gangScheduler="native"))
    kube.apply(job("gang", group("a", "100m", replicas=3), gangScheduler="volcano", membership={"minWorkers": 2}))
    says(kube, "native", "the cluster has no PodGroup of scheduling.k8s.io/v1beta1")
    says(kube, "gang", "the cluster has no PodGroup of scheduling.volcano.sh/v1beta1: install Volcano")
    kube.apply(crd())
    try:
        pods = kube.until("it has pods once there is one", lambda: kube.pods("gang"), 60)
        found = kube.get(f"podgroups.{_VOLCANO}", "gang")
        assert found is not None
        assert found["spec"] == {"minMember": 2}
        assert {pod["spec"]["schedulerName"] for pod in pods} == {"volcano"}
    finally:
        kube.run("delete", "crd", f"podgroups.{_VOLCANO}", "--wait=false")
