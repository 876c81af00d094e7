"""A worker's pod: the user's template as it is, and what docs/pods.md says that we add.

Whatever the user has written wins, except for who the worker is and how it proves that.
"""

from __future__ import annotations

import hashlib
import json
import math
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from omnilearn_core.api import names
from omnilearn_core.api.job import OmniLearnJob, WorkerGroup

from .gang import enrol
from .owned import Manifest, labels_of, metadata_of
from .place import Place

_OURS = "omnilearn"
_OURS_PATH = "/var/run/omnilearn"
_CHECKPOINT_PATH = "/checkpoints"
_TERMINATION_PATH = "/dev/termination-log"
_TOKEN_SECONDS = 3600
_GROUP_ID = 65532
_FALLBACK_GRACE_SECONDS = 30
# What a worker leaves of its grace period for the kubelet
_LEAVE_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Worker:
    """One of the workers that a job wants."""

    group: WorkerGroup
    index: int


def template_hash(group: WorkerGroup) -> str:
    """Return a hash of what the user has written: it decides whether a pod is of today's template."""
    text = json.dumps(group.template.to_manifest(), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def pod_of(job: OmniLearnJob, worker: Worker, attempt: int, place: Place, memory_bound: int | None = None) -> Manifest:
    """Return the pod of an attempt of a worker; ``memory_bound`` if earlier ones were out of memory."""
    template = deepcopy(worker.group.template.to_manifest())
    name = names.worker_name(job.metadata.name, worker.group.name, worker.index)
    spec = template["spec"]
    trainer = _trainer(spec)
    spec |= {"restartPolicy": "Never", "hostname": name, "subdomain": job.metadata.name}
    spec.setdefault("automountServiceAccountToken", False)
    spec.setdefault("terminationGracePeriodSeconds", _FALLBACK_GRACE_SECONDS)
    _set_environment(trainer, _environment(job, worker, attempt, place, spec))
    trainer.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")
    _mount(spec, trainer, {"name": _OURS, "projected": {"sources": _sources()}}, _OURS_PATH, read_only=True)
    if job.spec.checkpoint is not None:
        claim = {"claimName": job.spec.checkpoint.claim_name}
        _mount(spec, trainer, {"name": f"{_OURS}-checkpoints", "persistentVolumeClaim": claim}, _CHECKPOINT_PATH)
        if place.restricted:
            _let_write(spec)
    _mount(spec, trainer, {"name": f"{_OURS}-shm", "emptyDir": {"medium": "Memory"}}, "/dev/shm")  # noqa: S108
    _mount(spec, trainer, {"name": f"{_OURS}-tmp", "emptyDir": {}}, "/tmp")  # noqa: S108 - a path in the pod
    if place.restricted:
        _restrict(spec)
    metadata = _metadata(job, worker, attempt, place, template.get("metadata", {}))
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    enrol(job, pod)
    if memory_bound is not None:
        metadata["annotations"][names.MEMORY_BOUND_ANNOTATION] = str(memory_bound)
        trainer["env"].insert(0, {"name": names.ENV_MEMORY_BOUND, "value": str(memory_bound)})
    return pod


def _metadata(job: OmniLearnJob, worker: Worker, attempt: int, place: Place, users: Manifest) -> Manifest:
    name = names.worker_name(job.metadata.name, worker.group.name, worker.index)
    ours = metadata_of(job, names.pod_name(name, attempt))
    labels = {names.GROUP_LABEL: worker.group.name, names.WORKER_LABEL: name, names.ATTEMPT_LABEL: str(attempt)}
    annotations = {
        names.TEMPLATE_HASH_ANNOTATION: template_hash(worker.group),
        names.AUTHORITIES_ANNOTATION: place.authorities,
    }
    return ours | {
        "labels": {**users.get("labels", {}), **labels_of(job), **labels},
        "annotations": {**users.get("annotations", {}), **annotations},
    }


def _trainer(spec: Manifest) -> Manifest:
    containers: list[Manifest] = spec["containers"]
    return next((each for each in containers if each["name"] == names.TRAINER), containers[0])


def _environment(job: OmniLearnJob, worker: Worker, attempt: int, place: Place, spec: Manifest) -> list[Manifest]:
    """Return the variables that a worker has to have, as docs/protocol.md lists them."""
    grace = max(1, spec["terminationGracePeriodSeconds"] - _LEAVE_SECONDS)
    values = {
        names.ENV_JOB: job.metadata.name,
        names.ENV_WORKER: names.worker_name(job.metadata.name, worker.group.name, worker.index),
        names.ENV_ATTEMPT: attempt,
        names.ENV_GROUP: worker.group.name,
        names.ENV_DEVICE: worker.group.device,
        names.ENV_COORDINATOR: place.coordinator,
        names.ENV_TOKEN_FILE: f"{_OURS_PATH}/token",
        names.ENV_AUTHORITIES_FILE: f"{_OURS_PATH}/authorities.pem",
        names.ENV_GRACE_SECONDS: grace,
        names.ENV_TERMINATION_FILE: _trainer(spec).get("terminationMessagePath", _TERMINATION_PATH),
    }
    if job.spec.checkpoint is not None:
        values |= {
            names.ENV_CHECKPOINT_DIR: _CHECKPOINT_PATH,
            names.ENV_CHECKPOINT_SECONDS: job.spec.checkpoint.every_seconds,
            names.ENV_CHECKPOINT_KEEP: job.spec.checkpoint.keep,
        }
    address = {"name": names.ENV_ADDRESS, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    return [*({"name": name, "value": str(value)} for name, value in values.items()), address, *_threads(worker.group)]


def _threads(group: WorkerGroup) -> list[Manifest]:
    """Return as many threads as there are CPUs: more would only be throttled."""
    limit = group.template.spec.cpu_limit
    count = "" if limit is None else str(max(1, math.ceil(limit)))
    return [{"name": name, "value": count} for name in (names.OMP_THREADS, names.ENV_THREADS) if count]


def _set_environment(trainer: Manifest, ours: list[Manifest]) -> None:
    """Add our variables; a user's own number of threads stays, a user's own identity does not."""
    users = trainer.get("env", [])
    kept = {each["name"] for each in users if not each["name"].startswith("OMNILEARN_")}
    foreign = [each for each in users if each["name"] in kept]
    trainer["env"] = [*(each for each in ours if each["name"] not in kept), *foreign]


def _sources() -> list[Manifest]:
    files = {"authorities.pem": names.AUTHORITIES_ANNOTATION, "share": names.SHARE_ANNOTATION}
    items = [
        {"path": path, "fieldRef": {"fieldPath": f"metadata.annotations['{annotation}']"}}
        for path, annotation in files.items()
    ]
    token = {"audience": names.TOKEN_AUDIENCE, "expirationSeconds": _TOKEN_SECONDS, "path": "token"}
    return [
        {"serviceAccountToken": token},
        {"downwardAPI": {"items": items}},
    ]


def _mount(spec: Manifest, trainer: Manifest, volume: Manifest, path: str, *, read_only: bool = False) -> None:
    """Mount a volume in the trainer, unless the user has mounted something there."""
    mounts: list[dict[str, Any]] = trainer.setdefault("volumeMounts", [])
    if any(each["mountPath"].rstrip("/") == path for each in mounts):
        return
    spec.setdefault("volumes", []).append(volume)
    mounts.append({"name": volume["name"], "mountPath": path} | ({"readOnly": True} if read_only else {}))


def _let_write(spec: Manifest) -> None:
    """Have a claim belong to a group that the pod is in: whoever is not root could not write to it."""
    context = spec.setdefault("securityContext", {})
    if "fsGroup" not in context:
        context |= {"fsGroup": _GROUP_ID, "fsGroupChangePolicy": "OnRootMismatch"}


def _restrict(spec: Manifest) -> None:
    """Fill in what restricted namespaces ask for; what the user has set stays."""
    pod = spec.setdefault("securityContext", {})
    pod.setdefault("runAsNonRoot", True)
    pod.setdefault("seccompProfile", {"type": "RuntimeDefault"})
    for container in (*spec["containers"], *spec.get("initContainers", [])):
        context = container.setdefault("securityContext", {})
        context.setdefault("allowPrivilegeEscalation", False)
        context.setdefault("capabilities", {"drop": ["ALL"]})
