"""The pods that a job cannot start without, placed all together or not at all, by whichever scheduler the job names.

All pods of a job are in its group, and the group's minimum is the job's: whoever is placed first makes it up, and the
others are placed one by one. So no pod has to be chosen for the minimum, nor when one of them is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from omnilearn_core.api.job import GangScheduler, OmniLearnJob

from .owned import Manifest, metadata_of

_KIND = "PodGroup"


@dataclass(frozen=True, slots=True)
class _Gang:
    """What a scheduler calls its groups, and how a pod says that it is of one."""

    version: str
    needs: str
    """What to do where its API is missing."""

    scheduler: str = ""
    label: str = ""
    annotation: str = ""


_GANGS = {
    GangScheduler.NATIVE: _Gang("scheduling.k8s.io/v1beta1", "it comes with Kubernetes 1.37"),
    GangScheduler.VOLCANO: _Gang(
        "scheduling.volcano.sh/v1beta1", "install Volcano", "volcano", annotation="scheduling.k8s.io/group-name"
    ),
    GangScheduler.COSCHEDULING: _Gang(
        "scheduling.x-k8s.io/v1alpha1",
        "install the scheduler-plugins",
        "scheduler-plugins-scheduler",
        label="scheduling.x-k8s.io/pod-group",
    ),
}


def pod_group_of(job: OmniLearnJob) -> Manifest | None:
    """Return the group of a job's pods; None if the job asks for none."""
    gang = _GANGS.get(job.spec.gang_scheduler)
    if gang is None:
        return None
    fewest = job.spec.fewest
    spec: dict[str, Any] = {"minMember": fewest}
    if job.spec.gang_scheduler is GangScheduler.NATIVE:
        # A job survives the loss of single pods.
        spec = {"schedulingPolicy": {"gang": {"minCount": fewest}}, "disruptionMode": {"single": {}}}
    metadata = metadata_of(job, job.metadata.name)
    return {"apiVersion": gang.version, "kind": _KIND, "metadata": metadata, "spec": spec}


def enrol(job: OmniLearnJob, pod: Manifest) -> None:
    """Have a pod be of its job's group; a scheduler that the user has named stays."""
    gang = _GANGS.get(job.spec.gang_scheduler)
    if gang is None:
        return
    name, metadata, spec = job.metadata.name, pod["metadata"], pod["spec"]
    if gang.scheduler:
        spec.setdefault("schedulerName", gang.scheduler)
    else:
        spec["schedulingGroup"] = {"podGroupName": name}
    if gang.label:
        metadata["labels"][gang.label] = name
    if gang.annotation:
        metadata["annotations"][gang.annotation] = name


def missing_sentence(job: OmniLearnJob) -> str:
    """Say what to do where the API server knows no such groups."""
    chosen = job.spec.gang_scheduler
    gang = _GANGS[chosen]
    return f"gangScheduler is {chosen}, but the cluster has no {_KIND} of {gang.version}: {gang.needs}, or use none"


def forbidden_sentence(job: OmniLearnJob) -> str:
    """Say what to do where the operator may not make such groups."""
    chosen = job.spec.gang_scheduler
    why = f"gangScheduler is {chosen}, and the operator has no right to a {_KIND} of it"
    return f"{why}: name it in the chart's value gangSchedulers, or use none"
