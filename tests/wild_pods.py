"""Pods as nobody should make them, but somebody may: a new one is a line here."""

from __future__ import annotations

import copy
import json
from typing import Any

from omnilearn_core.api import names
from omnilearn_operator.manifests.pods import template_hash
from operations import job_of

Manifest = dict[str, Any]

POD: Manifest = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "job-a-0-0",
        "namespace": "team",
        "uid": "pod-uid",
        "resourceVersion": "7",
        "creationTimestamp": "2026-11-16T10:00:00Z",
        "labels": {
            names.MANAGED_LABEL: "true",
            names.JOB_LABEL: "job",
            names.WORKER_LABEL: "job-a-0",
            names.ATTEMPT_LABEL: "0",
        },
        "annotations": {
            names.TEMPLATE_HASH_ANNOTATION: template_hash(job_of().spec.workers[0]),
            names.SHARE_ANNOTATION: "32",
            names.GENERATION_ANNOTATION: "3",
            names.PLAN_ANNOTATION: "2",
            names.MEMORY_BOUND_ANNOTATION: "16",
            names.AUTHORITIES_ANNOTATION: "ca",
        },
        "ownerReferences": [{"uid": "job-uid", "controller": True, "kind": "OmniLearnJob", "name": "job"}],
    },
    "spec": {"containers": [{"name": "trainer", "image": "i"}, {"name": "sidecar", "image": "i"}]},
    "status": {
        "phase": "Running",
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-16T10:00:01Z"},
            {"type": "DisruptionTarget", "status": "False", "reason": "EvictionByEvictionAPI"},
        ],
        "initContainerStatuses": [{"name": "first", "state": {"terminated": {"exitCode": 0}}}],
        "containerStatuses": [
            {
                "name": "trainer",
                "state": {
                    "terminated": {
                        "exitCode": 1,
                        "reason": "Error",
                        "message": "ValueError",
                        "finishedAt": "2026-11-16T10:00:30Z",
                    }
                },
            },
            {"name": "sidecar", "state": {"running": {"startedAt": "2026-11-16T10:00:02Z"}}},
        ],
    },
}
"""A pod in which everything is there that the operator looks at."""


def pod(*path: Any, value: Any) -> Manifest:
    """Return the pod with something else at a place."""
    made = copy.deepcopy(POD)
    place: Any = made
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return made


def annotated(name: str, text: str) -> Manifest:
    return pod("metadata", "annotations", name, value=text)


def labelled(name: str, text: str) -> Manifest:
    return pod("metadata", "labels", name, value=text)


def said(message: str, code: int = 0) -> Manifest:
    """Return the pod whose script has left a message."""
    ended = {"exitCode": code, "message": message, "finishedAt": "2026-11-16T10:00:30Z"}
    return pod("status", "containerStatuses", 0, "state", value={"terminated": ended})


PODS: dict[str, Manifest] = {
    "no status": pod("status", value={}),
    "no containers": pod("spec", value={}),
    "no container statuses": pod("status", value={"phase": "Running"}),
    "statuses of other containers": pod("status", "containerStatuses", value=[{"name": "other", "state": {}}]),
    "a status without a state": pod("status", "containerStatuses", value=[{"name": "trainer"}]),
    "a state of all kinds": pod(
        "status", "containerStatuses", 0, "state", value={"running": {}, "waiting": {}, "terminated": {}}
    ),
    "an unknown phase": pod("status", "phase", value="Hibernating"),
    "no phase": pod("status", "phase", value=""),
    "failed as a whole": pod("status", value={"phase": "Failed", "reason": "Evicted", "message": "x" * 100_000}),
    "an unknown condition": pod("status", "conditions", value=[{"type": "Tired", "status": "Perhaps"}]),
    "an exit code of 10^9": pod(
        "status", "containerStatuses", 0, "state", value={"terminated": {"exitCode": 10**9, "reason": "x" * 10_000}}
    ),
    "an end in the year 1": pod(
        "status", "containerStatuses", 0, "state", "terminated", "finishedAt", value="0001-01-01T00:00:00Z"
    ),
    "an end in the year 9999": pod(
        "status", "containerStatuses", 0, "state", "terminated", "finishedAt", value="9999-12-31T23:59:59Z"
    ),
    "scheduled in the year 9999": pod(
        "status",
        value={
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "9999-12-31T23:59:59Z"}],
        },
    ),
    "a message of a megabyte": said("x" * 2**20, 1),
    "a message of control characters": said("\x1b[2J\0\r\n" * 100, 1),
    "a message of a format": said("%s %d {0} {name}", 1),
    "a message that nests deeply": said("[" * 2000),
    "objects that nest deeply": said('{"type":' * 240),
    "a message that is half of JSON": said('{"type": "done"'),
    "a message that is a list": said('["done"]'),
    "a message with NaN": said('{"type": "done", "steps": NaN}'),
    "a message that says done in megabytes": said(json.dumps({"why": "x" * 2**20, "type": "done"})),
    "a message of another type": said('{"type": {"done": 1}}'),
    "a share of 5000 digits": annotated(names.SHARE_ANNOTATION, "9" * 5000),
    "a plan of 5000 digits": annotated(names.PLAN_ANNOTATION, "9" * 5000),
    "a bound of 5000 digits": annotated(names.MEMORY_BOUND_ANNOTATION, "9" * 5000),
    "a negative share": annotated(names.SHARE_ANNOTATION, "-1"),
    "a share in other digits": annotated(names.SHARE_ANNOTATION, "٣"),
    "a share of ²": annotated(names.SHARE_ANNOTATION, "²"),
    "a share of nothing": annotated(names.SHARE_ANNOTATION, ""),
    "a hash of 100 kB": annotated(names.TEMPLATE_HASH_ANNOTATION, "x" * 100_000),
    "an attempt of ²": labelled(names.ATTEMPT_LABEL, "²"),
    "an attempt of 63 digits": labelled(names.ATTEMPT_LABEL, "9" * 63),
    "an attempt that is no number": labelled(names.ATTEMPT_LABEL, "first"),
    "a worker of another job": labelled(names.WORKER_LABEL, "other-a-0"),
    "a worker that the job does not have": labelled(names.WORKER_LABEL, "job-z-99"),
    "a worker without a name": labelled(names.WORKER_LABEL, ""),
    "a label of another job": labelled(names.JOB_LABEL, "other"),
    "an owner of another job": pod("metadata", "ownerReferences", 0, "uid", value="other-uid"),
    "an owner that is no controller": pod("metadata", "ownerReferences", 0, "controller", value=False),
    "no owner": pod("metadata", "ownerReferences", value=[]),
    "no labels": pod("metadata", "labels", value={}),
    "labels of null": pod("metadata", "labels", value=None),
    "annotations of null": pod("metadata", "annotations", value=None),
    "a status of null": pod("status", value=None),
    "statuses of null": pod("status", "containerStatuses", value=None),
    "no UID": pod("metadata", "uid", value=""),
    "a time that is none": pod("metadata", "creationTimestamp", value="yesterday"),
    "a version that is none": pod("metadata", "resourceVersion", value="new"),
}
