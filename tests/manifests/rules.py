"""Manifests that break rules, one past what good.py has exactly equal, with the whole sentence of every rule."""

from __future__ import annotations

from .build import Manifest, changed, container, group, manifest
from .cases import Bad, breaks
from .strategies import UNFIT

_GPU = {"limits": {"nvidia.com/gpu": 1}}
_TEMPLATE = "spec.workers[0].template.spec"


def _job_name(name: str) -> Bad:
    return breaks(
        manifest(name),
        (
            "metadata.name",
            f"metadata.name is '{name}': use lower-case letters, digits and hyphens, beginning with a letter and"
            " without dots, because pods and a Service are named after it",
        ),
    )


def _group_name(name: str) -> Bad:
    return breaks(
        manifest(workers=[group(name)]),
        (
            "spec.workers[0].name",
            f"the group name is '{name}': use lower-case letters and digits, beginning with a letter and without"
            " hyphens, so that names of pods cannot collide",
        ),
    )


def _long_names(job: str, bad_group: str, *workers: Manifest) -> Bad:
    return breaks(
        manifest(job, workers=list(workers)),
        (
            "metadata.name",
            f"metadata.name '{job}' and the group name '{bad_group}' have 52 characters together, but pods are called"
            " <job>-<group>-<index>-<attempt> and leave room for 51: shorten one of them",
        ),
    )


def _gpu_without_device(index: int, *workers: Manifest) -> Bad:
    return breaks(
        manifest(workers=list(workers)),
        (
            f"spec.workers[{index}].template.spec.containers",
            "group 'gpu' has device gpu, but its trainer container has neither a limit such as nvidia.com/gpu nor a"
            " resource claim: add one, or set device to cpu",
        ),
    )


def _restart_policy(policy: str) -> Bad:
    return breaks(
        changed(manifest(), "spec.workers.0.template.spec.restartPolicy", policy),
        (
            f"{_TEMPLATE}.restartPolicy",
            f"restartPolicy is '{policy}': leave it out, a worker that ends is replaced by a new pod",
        ),
    )


def _trainers(sentence: str, *containers: Manifest) -> Bad:
    return breaks(
        manifest(workers=[group("cpu", *containers)]),
        (f"{_TEMPLATE}.containers", f"{sentence}: call exactly one of them trainer, the one that trains"),
    )


_NAMES = {
    "job name with a dot": _job_name("resnet.v2"),
    "job name with capitals": _job_name("ResNet"),
    "job name with an underscore": _job_name("my_job"),
    "job name that begins with a digit": _job_name("3d-net"),
    "job name that ends with a hyphen": _job_name("job-"),
    "job name with an umlaut": _job_name("jöb"),
    "job and group name with 52 characters": _long_names("j" * 12, "g" * 40, group("g" * 40)),
    "second group name too long": _long_names("j" * 30, "h" * 22, group("g" * 21), group("h" * 22)),
    "group name with a hyphen": _group_name("big-gpu"),
    "group name with capitals": _group_name("GPU"),
    "group name that begins with a digit": _group_name("4090"),
    "group name with an umlaut": _group_name("groß"),
    "group name twice": breaks(
        manifest(workers=[group("a"), group("b"), group("a")]),
        ("spec.workers", "the group name 'a' is used twice in workers: give every group a name of its own"),
    ),
}

_NUMBERS = {
    "no worker at all": breaks(
        manifest(workers=[group("a", replicas=0), group("b", replicas=0)]),
        ("spec.workers", "workers has no worker: set replicas of a group to at least 1"),
    ),
    "minReplicas above replicas": breaks(
        manifest(workers=[group("a"), group("b", minReplicas=3)]),
        (
            "spec.workers[1].minReplicas",
            "minReplicas is 3, above replicas 2: lower minReplicas or raise replicas",
        ),
    ),
    "minWorkers above all replicas": breaks(
        manifest(workers=[group("a"), group("b")], membership={"minWorkers": 5}),
        (
            "spec.membership.minWorkers",
            "membership.minWorkers is 5, but all groups together have 4 replicas: lower minWorkers or raise replicas",
        ),
    ),
    "minWorkers above maxWorkers": breaks(
        manifest(workers=[group(replicas=3)], membership={"minWorkers": 3, "maxWorkers": 2}),
        (
            "spec.membership.minWorkers",
            "membership.minWorkers is 3, above maxWorkers 2: lower minWorkers or raise maxWorkers",
        ),
    ),
    "minReplicas above maxWorkers": breaks(
        manifest(workers=[group("a", minReplicas=2), group("b", minReplicas=1)], membership={"maxWorkers": 2}),
        (
            "spec.membership.maxWorkers",
            "membership.maxWorkers is 2, but the groups' minReplicas need 3 workers:"
            " raise maxWorkers or lower minReplicas",
        ),
    ),
    "maxWorkers above all replicas": breaks(
        manifest(membership={"maxWorkers": 3}),
        (
            "spec.membership.maxWorkers",
            "membership.maxWorkers is 3, but all groups together have 2 replicas: lower maxWorkers or raise replicas",
        ),
    ),
    # Whoever sets minPerWorker above maxPerWorker cannot have set global right as well.
    "minPerWorker above maxPerWorker": breaks(
        manifest(batch={"global": 64, "minPerWorker": 33, "maxPerWorker": 32}, membership={"minWorkers": 2}),
        (
            "spec.batch.minPerWorker",
            "minPerWorker is 33, above maxPerWorker 32: lower minPerWorker or raise maxPerWorker",
        ),
        (
            "spec.batch.global",
            "batch.global is 64, but the most workers that the job can have (2) get at least 33 each, 66 together:"
            " raise global, lower minPerWorker or use fewer workers",
        ),
    ),
    "fewest workers cannot hold the batch": breaks(
        manifest(batch={"global": 65, "maxPerWorker": 32}, membership={"minWorkers": 2}),
        (
            "spec.batch.global",
            "batch.global is 65, but the fewest workers that the job runs with (2) can hold only 32 each, 64 together:"
            " raise maxPerWorker or minWorkers, or lower global",
        ),
    ),
    "batch too small for all workers": breaks(
        manifest(batch={"global": 63, "minPerWorker": 32}),
        (
            "spec.batch.global",
            "batch.global is 63, but the most workers that the job can have (2) get at least 32 each, 64 together:"
            " raise global, lower minPerWorker or use fewer workers",
        ),
    ),
    "batch too small for maxWorkers": breaks(
        manifest(batch={"global": 2}, workers=[group(replicas=9)], membership={"maxWorkers": 3}),
        (
            "spec.batch.global",
            "batch.global is 2, but the most workers that the job can have (3) get at least 1 each, 3 together:"
            " raise global, lower minPerWorker or use fewer workers",
        ),
    ),
    "suspended without a checkpoint": breaks(
        manifest(suspend=True),
        (
            "spec.suspend",
            "suspend is true, but there is no checkpoint to go on from: add checkpoint.claimName, or delete the job",
        ),
    ),
}

_TEMPLATES = {
    "two containers, none called trainer": _trainers(
        "the pod has 2 containers, of which 0 are called 'trainer'", container("main"), container("log")
    ),
    "two containers called trainer": _trainers(
        "the pod has 2 containers, of which 2 are called 'trainer'", container(), container()
    ),
    "restartPolicy Always": _restart_policy("Always"),
    "restartPolicy empty": _restart_policy(""),
    "gpu without a limit": _gpu_without_device(1, group("cpu"), group("gpu", device="gpu")),
    "gpu with limits of CPU and memory only": _gpu_without_device(
        0, group("gpu", container(resources={"limits": {"cpu": 4, "memory": "8Gi"}, "claims": []}), device="gpu")
    ),
    "gpu limit of the sidecar": _gpu_without_device(
        0, group("gpu", container(), container("log", resources=_GPU), device="gpu")
    ),
}

BROKEN_RULES: dict[str, Bad] = _NAMES | _NUMBERS | _TEMPLATES | UNFIT
