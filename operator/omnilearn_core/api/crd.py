"""The CustomResourceDefinition, made from the models. `make generate` writes it to crds/."""

from __future__ import annotations

from typing import Any

from . import names
from .job import JobSpec, OmniLearnJob
from .schema import structural_schema, validations
from .status import JobStatus

# With -o wide
_WIDE = (
    ("Strategy", "string", ".spec.strategy.type", "How the workers train together"),
    ("Rounds", "integer", ".status.rounds", "Exchanges or updates committed"),
    ("Local-Steps", "string", ".status.localSteps", "Steps between two merges, of the slowest and the fastest member"),
    ("Staleness", "integer", ".status.maxStaleness", "The largest staleness of late"),
)
_COLUMNS: tuple[tuple[str, str, str, str], ...] = (
    ("State", "string", ".status.phase", "Where the job stands"),
    ("Workers", "string", ".status.workers.summary", "Ready and wanted workers"),
    ("Step", "integer", ".status.step", "Steps committed"),
    ("Progress", "integer", ".status.progressPercent", "Percent of all samples committed"),
    ("Samples/s", "number", ".status.samplesPerSecond", "Speed of all members together"),
    ("Imbalance", "integer", ".status.imbalancePercent", "Percent of a step spent waiting for the slowest"),
    ("Age", "date", ".metadata.creationTimestamp", "Since the job was created"),
)


def custom_resource_definition() -> dict[str, Any]:
    """Return the CRD as an object, ready to be written as YAML."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": names.CRD_NAME},
        "spec": {
            "group": names.GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": names.KIND,
                "listKind": names.LIST_KIND,
                "plural": names.PLURAL,
                "singular": names.SINGULAR,
                "shortNames": [names.SHORT_NAME],
                "categories": ["all"],
            },
            "versions": [_version()],
        },
    }


def _version() -> dict[str, Any]:
    return {
        "name": names.VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _job_schema()},
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.membership.maxWorkers",
                "statusReplicasPath": ".status.workers.ready",
                "labelSelectorPath": ".status.selector",
            },
        },
        "additionalPrinterColumns": [
            {"name": name, "type": kind, "jsonPath": path, "description": description}
            for name, kind, path, description in _COLUMNS
        ]
        + [
            {"name": name, "type": kind, "jsonPath": path, "description": description, "priority": 1}
            for name, kind, path, description in _WIDE
        ],
    }


def _job_schema() -> dict[str, Any]:
    """Return the schema of a job; metadata is the API server's own, but rules may read its name."""
    return {
        "type": "object",
        "description": OmniLearnJob.__doc__,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": structural_schema(JobSpec, "spec"),
            "status": structural_schema(JobStatus, "status"),
        },
        "x-kubernetes-validations": validations(""),
    }
