"""Manifests that the schema refuses. The sentences are ours; the API server has its own for these."""

from __future__ import annotations

from typing import Any

from .build import ABSENT, changed, group, manifest
from .cases import Bad, refused

_CONTAINER = "spec.workers.0.template.spec.containers.0"
_WHOLE = "write a whole number"
_FIELDS = "write fields, indented below it"
_LIST = "write a list, each entry with a dash"
_QUANTITY = "write a quantity such as 2, 500m or 4Gi"
_NAME = "use at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit"


def _with(path: str, value: Any, sentence: str) -> Bad:
    """Return the smallest job with another value at ``path``, where the problem is, too."""
    steps = [f"[{step}]" if step.isdigit() else f".{step}" for step in path.split(".")]
    return refused(changed(manifest(), path, value), "".join(steps).lstrip("."), sentence)


def _limits(limits: Any, sentence: str, below: str = "") -> Bad:
    bad = _with(f"{_CONTAINER}.resources.limits", limits, sentence)
    return refused(bad.manifest, bad.problems[0].path + below, sentence)


_MISSING = {
    "no spec": _with("spec", ABSENT, "spec is missing: add it (here are only apiVersion, kind, metadata)"),
    "no batch": _with("spec.batch", ABSENT, "batch is missing: add it (here is only workers)"),
    "no global batch": _with("spec.batch.global", ABSENT, "global is missing: add it"),
    "no workers": _with("spec.workers", ABSENT, "workers is missing: add it (here is only batch)"),
    "no template": _with(
        "spec.workers.0.template", ABSENT, "template is missing: add it (here are only name, replicas)"
    ),
    "no containers": _with("spec.workers.0.template.spec.containers", ABSENT, "containers is missing: add it"),
    "no group name": _with("spec.workers.0.name", ABSENT, "name is missing: add it (here are only replicas, template)"),
    "no container name": _with(f"{_CONTAINER}.name", ABSENT, "name is missing: add it (here are only image, command)"),
    "no metadata": _with("metadata", ABSENT, "metadata is missing: add it (here are only apiVersion, kind, spec)"),
    "no name": _with("metadata.name", ABSENT, "name is missing: add it"),
    "no apiVersion": _with("apiVersion", ABSENT, "apiVersion is missing: add it (here are only kind, metadata, spec)"),
    "no kind": _with("kind", ABSENT, "kind is missing: add it (here are only apiVersion, metadata, spec)"),
}

_TYPES = {
    "string for a number": _with("spec.batch.global", "512", f'global is "512": {_WHOLE}, without quotes'),
    "fraction for a whole number": _with("spec.batch.global", 64.5, f"global is 64.5: {_WHOLE}"),
    "true for a number": _with("spec.workers.0.replicas", True, f"replicas is true: {_WHOLE}"),
    "number for true": _with("spec.suspend", 0, "suspend is 0: write true or false"),
    "string for false": _with("spec.suspend", "false", 'suspend is "false": write true or false, without quotes'),
    "number for a name": _with("spec.workers.0.name", 4090, "name is 4090: put it in quotes"),
    "number in a command": _with(f"{_CONTAINER}.command.1", 1, "command[1] is 1: put it in quotes"),
    "command as a string": _with(f"{_CONTAINER}.command", "python train.py", f'command is "python train.py": {_LIST}'),
    "null in a command": _with(f"{_CONTAINER}.command.0", None, "command[0] is null: write a string"),
    "workers as fields": _with("spec.workers", {"cpu": {}}, f'workers is {{"cpu": {{}}}}: {_LIST}'),
    "group as a string": _with("spec.workers.0", "cpu", f'workers[0] is "cpu": {_FIELDS}'),
    "metadata as a string": _with("metadata", "job", f'metadata is "job": {_FIELDS}'),
    "spec as a list": _with("spec", [], f"spec is []: {_FIELDS}"),
    "batch as a number": _with("spec.batch", 512, f"batch is 512: {_FIELDS}"),
    "number as a label": _with("metadata.labels.run", 7, "run is 7: put it in quotes"),
    "fraction as a limit": _limits({"cpu": 0.5}, 'cpu is 0.5: put it in quotes, "0.5"', ".cpu"),
    "huge number as a limit": _limits({"cpu": 10**20}, f'cpu is {10**20}: put it in quotes, "{10**20}"', ".cpu"),
    "true as a limit": _limits({"cpu": True}, f"cpu is true: {_QUANTITY}", ".cpu"),
    "limits as a list": _limits([{"cpu": 1}], f'limits is [{{"cpu": 1}}]: {_FIELDS}'),
}

_BOUNDS = {
    "global batch of zero": _with("spec.batch.global", 0, "global is 0: use 1 or more"),
    "global batch too large": _with("spec.batch.global", 16777217, "global is 16777217: use 16777216 or less"),
    "absurd global batch": _with("spec.batch.global", 10**30, f"global is {10**30}: use 16777216 or less"),
    "negative minPerWorker": _with("spec.batch.minPerWorker", -1, "minPerWorker is -1: use 0 or more"),
    "maxPerWorker of zero": _with("spec.batch.maxPerWorker", 0, "maxPerWorker is 0: use 1 or more"),
    "too many replicas": _with("spec.workers.0.replicas", 1025, "replicas is 1025: use 1024 or less"),
    "capacity of zero": _with("spec.workers.0.capacity", 0, "capacity is 0: use 1 or more"),
    "minWorkers of zero": _with("spec.membership.minWorkers", 0, "minWorkers is 0: use 1 or more"),
    "maxWorkers of zero": _with("spec.membership.maxWorkers", 0, "maxWorkers is 0: use 1 or more"),
    "silentAfterSeconds too short": _with(
        "spec.membership.silentAfterSeconds", 2, "silentAfterSeconds is 2: use 3 or more"
    ),
    "negative maxFailures": _with("spec.restart.maxFailures", -1, "maxFailures is -1: use 0 or more"),
    "negative ttl": _with("spec.ttlSecondsAfterFinished", -1, "ttlSecondsAfterFinished is -1: use 0 or more"),
    "deadline of zero": _with("spec.activeDeadlineSeconds", 0, "activeDeadlineSeconds is 0: use 1 or more"),
    "no group": _with("spec.workers", [], "workers has 0 entries: use at least 1"),
    "17 groups": _with("spec.workers", [group(f"g{i}") for i in range(17)], "workers has 17 entries: use at most 16"),
    "no container": _with("spec.workers.0.template.spec.containers", [], "containers has 0 entries: use at least 1"),
    "33 limits": _limits({f"r{i}": 1 for i in range(33)}, "limits has 33 entries: use at most 32"),
    "empty group name": _with("spec.workers.0.name", "", "name has 0 characters: use at least 1"),
    "group name of 41 letters": _with("spec.workers.0.name", "g" * 41, "name has 41 characters: use at most 40"),
    "empty job name": _with("metadata.name", "", "name has 0 characters: use at least 1"),
    "job name of 254 letters": _with("metadata.name", "j" * 254, "name has 254 characters: use at most 253"),
    "container name of 64 letters": _with(f"{_CONTAINER}.name", "c" * 64, "name has 64 characters: use at most 63"),
    "empty claimName": refused(
        manifest(checkpoint={"claimName": ""}),
        "spec.checkpoint.claimName",
        "claimName has 0 characters: use at least 1",
    ),
    "checkpoint without claimName": refused(
        manifest(checkpoint={"keep": 1}),
        "spec.checkpoint.claimName",
        "claimName is missing: add it (here is only keep)",
    ),
}

_CHOICES = {
    "device in capitals": _with("spec.workers.0.device", "GPU", 'device is "GPU": use cpu, gpu (did you mean gpu?)'),
    "unknown device": _with("spec.workers.0.device", "tpu", 'device is "tpu": use cpu, gpu'),
    "law in lower case": _with(
        "spec.batch.law",
        "affine",
        'law is "affine": use Uniform, Static, Proportional, PerEpoch, Affine (did you mean Affine?)',
    ),
    "unknown strategy": _with(
        "spec.strategy.type", "Async", 'type is "Async": use Synchronous, LocalSGD, Hierarchical, Asynchronous, Auto'
    ),
    "unknown scheduler": _with(
        "spec.gangScheduler", "kueue", 'gangScheduler is "kueue": use none, native, volcano, coscheduling'
    ),
    "another version": _with(
        "apiVersion", "omnilearn.dev/v1", 'apiVersion is "omnilearn.dev/v1": use omnilearn.dev/v1alpha1'
    ),
    "misspelt kind": _with("kind", "OmnilearnJob", 'kind is "OmnilearnJob": use OmniLearnJob'),
}

_UNKNOWN = {
    "unknown field of the job": _with("specs", {}, "there is no field specs: did you mean spec?"),
    "unknown field of spec": _with(
        "spec.priority",
        1,
        "there is no field priority: known here are activeDeadlineSeconds, batch, checkpoint, cleanPods, gangScheduler,"
        " managedBy, membership, restart, startupDeadlineSeconds, strategy, suspend, ttlSecondsAfterFinished, workers",
    ),
    "field in snake case": _with(
        "spec.workers.0.min_replicas", 1, "there is no field min_replicas: did you mean minReplicas?"
    ),
    "misspelt field of batch": _with("spec.batch.globl", 1, "there is no field globl: did you mean global?"),
    "misspelt field of membership": _with(
        "spec.membership.maxWorker", 1, "there is no field maxWorker: did you mean maxWorkers?"
    ),
    "field of a Deployment": _with("spec.replicas", 4, "there is no field replicas here: it belongs in spec.workers[]"),
    "field of membership in batch": _with(
        "spec.batch.minWorkers", 4, "there is no field minWorkers here: it belongs in spec.membership"
    ),
    "field of the pod in the group": _with(
        "spec.workers.0.containers", [], "there is no field containers here: it belongs in spec.workers[].template.spec"
    ),
    "null in an unknown field": _with("spec.batch.globl", None, "there is no field globl: did you mean global?"),
    "misspelt metadata": _with("metadata.lables", {}, "there is no field lables: did you mean labels?"),
}

_METADATA = {
    "namespace with capitals": _with(
        "metadata.namespace",
        "Team",
        "namespace is \"Team\": use lower-case letters, digits and '-', beginning and ending with a letter or digit",
    ),
    "label with spaces": _with(
        "metadata.labels.team", "computer vision", f'team is "computer vision": {_NAME}; or nothing'
    ),
    "label key with spaces": _with(
        "metadata.labels.my team", "x", f"my team is \"my team\": {_NAME}; a domain and '/' may come first"
    ),
}

_NULL = {
    "null as the global batch": _with("spec.batch.global", None, "global is empty: give it a value"),
    "null as spec": _with("spec", None, "spec is empty: give it a value"),
    "null as metadata": _with("metadata", None, "metadata is empty: give it a value"),
    "null as a template": _with("spec.workers.0.template", None, "template is empty: give it a value"),
    "null as a group": _with("spec.workers.0", None, f"workers[0] is null: {_FIELDS}"),
}

SCHEMA_REFUSALS: dict[str, Bad] = _MISSING | _TYPES | _BOUNDS | _CHOICES | _UNKNOWN | _METADATA | _NULL

# What a create request drops and a server-side apply refuses: see tests/integration/test_apiserver.py.
OPTIONAL_NULLS: dict[str, Bad] = {
    "null as the checkpoint": _with(
        "spec.checkpoint", None, "checkpoint is empty: give it a value, or leave the line out"
    ),
    "null as maxWorkers": _with(
        "spec.membership.maxWorkers", None, "maxWorkers is empty: give it a value, or leave the line out"
    ),
    "null as a command": _with(
        f"{_CONTAINER}.command", None, "command is empty: give it a value, or leave the line out"
    ),
    "null as a limit": _limits({"cpu": None}, "cpu is empty: give it a value, or leave the line out", ".cpu"),
}
