"""Manifests that pass; where a rule compares two numbers, with both exactly equal."""

from __future__ import annotations

from .build import Manifest, changed, container, group, manifest
from .strategies import STRATEGIES

_GPU = {"limits": {"nvidia.com/gpu": 1}}
_CLAIM = {"claims": [{"name": "gpu", "request": "half"}]}
_CHECKPOINT = {"claimName": "checkpoints"}

_EVERYTHING = manifest(
    "everything",
    strategy={"type": "Synchronous"},
    batch={"global": 512, "law": "Proportional", "minPerWorker": 0, "maxPerWorker": 256},
    workers=[
        group("gpu", container(resources=_GPU), device="gpu", minReplicas=1, capacity=10),
        group("cpu", device="cpu", minReplicas=1, capacity=1),
    ],
    membership={"minWorkers": 2, "maxWorkers": 3, "joinTimeoutSeconds": 60, "silentAfterSeconds": 20},
    restart={"maxFailures": 5},
    checkpoint={"claimName": "checkpoints", "everySeconds": 30, "keep": 5},
    suspend=False,
    startupDeadlineSeconds=300,
    activeDeadlineSeconds=86400,
    ttlSecondsAfterFinished=0,
    gangScheduler="volcano",
)

_LOWEST = manifest(
    "a",
    batch={"global": 1, "minPerWorker": 0, "maxPerWorker": 1},
    workers=[group("a", replicas=1, minReplicas=0, capacity=1), group("b", replicas=0)],
    membership={"minWorkers": 1, "maxWorkers": 1, "joinTimeoutSeconds": 1, "silentAfterSeconds": 3},
    restart={"maxFailures": 0},
    checkpoint={"claimName": "c", "everySeconds": 1, "keep": 1},
    startupDeadlineSeconds=1,
    activeDeadlineSeconds=1,
    ttlSecondsAfterFinished=0,
)

_HIGHEST = manifest(
    "b",
    batch={"global": 16777216, "minPerWorker": 1024, "maxPerWorker": 16777216},
    workers=[group(f"g{i}", replicas=1024, minReplicas=1024, capacity=1000000) for i in range(16)],
    membership={"minWorkers": 16384, "maxWorkers": 16384, "joinTimeoutSeconds": 3600, "silentAfterSeconds": 3600},
    restart={"maxFailures": 1000000},
    checkpoint={"claimName": "c" * 253, "everySeconds": 315360000, "keep": 1000},
    startupDeadlineSeconds=315360000,
    activeDeadlineSeconds=315360000,
    ttlSecondsAfterFinished=315360000,
)

_TEMPLATE_WITH_MORE = changed(
    manifest(),
    "spec.workers.0.template",
    {
        "metadata": {"labels": {"team": "vision"}},
        "spec": {
            "containers": [
                container(env=[{"name": "SEED", "value": "1"}], resources={"requests": {"cpu": 0.5}}, args=[]),
                container("sidecar", ports=[{"containerPort": 80}]),
            ],
            "restart_policy": 5,
            "nodeSelector": {"zone": "a"},
            "tolerations": None,
        },
    },
)

GOOD: dict[str, Manifest] = {
    **STRATEGIES,
    "smallest": manifest(),
    "everything": _EVERYTHING,
    "lowest numbers": _LOWEST,
    "highest numbers": _HIGHEST,
    # Names
    "name of one letter": manifest("x"),
    "name with hyphens and digits": manifest("resnet-50-try-2"),
    "job and group name with 51 characters": manifest("j" * 11, workers=[group("g" * 40)]),
    "job name with 50 characters": manifest("j" * 50, workers=[group("g")]),
    "generated name": changed(manifest(), "metadata", {"generateName": "run-"}),
    "labels and annotations": changed(
        manifest(),
        "metadata",
        {
            "name": "job",
            "namespace": "team-1",
            "labels": {"app.kubernetes.io/name": "A_b.c", "empty": "", "null": None},
            "annotations": {"Example.com/Note": "any text at all\n"},
            "creationTimestamp": None,
            "finalizers": ["omnilearn.dev/pods"],
        },
    ),
    # Numbers
    "minReplicas equal to replicas": manifest(workers=[group(minReplicas=2)]),
    "minWorkers equal to all replicas": manifest(workers=[group("a"), group("b")], membership={"minWorkers": 4}),
    "minWorkers equal to maxWorkers": manifest(
        workers=[group(replicas=3)], membership={"minWorkers": 2, "maxWorkers": 2}
    ),
    "minReplicas equal to maxWorkers": manifest(
        workers=[group("a", minReplicas=1), group("b", minReplicas=1)], membership={"maxWorkers": 2}
    ),
    "maxWorkers equal to all replicas": manifest(membership={"maxWorkers": 2}),
    "minPerWorker equal to maxPerWorker": manifest(
        batch={"global": 64, "minPerWorker": 32, "maxPerWorker": 32}, membership={"minWorkers": 2}
    ),
    "fewest workers just hold the batch": manifest(
        batch={"global": 64, "maxPerWorker": 32}, membership={"minWorkers": 2}
    ),
    "minReplicas alone make enough workers": manifest(
        batch={"global": 64, "maxPerWorker": 32}, workers=[group("a", minReplicas=1), group("b", minReplicas=1)]
    ),
    "most workers just get their samples": manifest(batch={"global": 64, "minPerWorker": 32}),
    "maxWorkers makes the batch large enough": manifest(
        batch={"global": 64, "minPerWorker": 32}, workers=[group(replicas=100)], membership={"maxWorkers": 2}
    ),
    "more workers than samples": manifest(batch={"global": 1, "minPerWorker": 0}),
    "group without workers beside another": manifest(workers=[group("a", replicas=0), group("b")]),
    "suspended with a checkpoint": manifest(suspend=True, checkpoint=_CHECKPOINT),
    # Templates
    "container with another name": manifest(workers=[group("cpu", container("main"))]),
    "trainer and sidecar": manifest(workers=[group("cpu", container("log"), container())]),
    "restartPolicy Never": changed(manifest(), "spec.workers.0.template.spec.restartPolicy", "Never"),
    "gpu by limit": manifest(workers=[group("gpu", container(resources=_GPU), device="gpu")]),
    "gpu by claim": manifest(workers=[group("gpu", container(resources=_CLAIM), device="gpu")]),
    "gpu of the only container": manifest(workers=[group("gpu", container("main", resources=_GPU), device="gpu")]),
    "gpu beside a sidecar": manifest(workers=[group("gpu", container("log"), container(resources=_GPU), device="gpu")]),
    "limits as numbers and quantities": manifest(
        workers=[group("cpu", container(resources={"limits": {"cpu": 2, "memory": "4Gi", "odd": "any text"}}))]
    ),
    "fields of Kubernetes in the template": _TEMPLATE_WITH_MORE,
    # Null
    "null where there is a default": manifest(
        suspend=None, membership=None, strategy={"type": None}, restart={"maxFailures": None}, gangScheduler=None
    ),
}
