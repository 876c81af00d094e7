"""Names, labels and owner of everything that belongs to a job."""

from __future__ import annotations

from typing import Any

from omnilearn_core.api import names
from omnilearn_core.api.job import OmniLearnJob

Manifest = dict[str, Any]


def labels_of(job: OmniLearnJob) -> dict[str, str]:
    """Return the labels by which a job's objects are found."""
    return {names.MANAGED_LABEL: "true", names.JOB_LABEL: job.metadata.name}


def metadata_of(job: OmniLearnJob, name: str) -> Manifest:
    """Return the metadata of an object that goes when its job does."""
    return {
        "name": name,
        "namespace": job.metadata.namespace or "default",
        "labels": labels_of(job),
        "ownerReferences": [
            {
                "apiVersion": names.API_VERSION,
                "kind": names.KIND,
                "name": job.metadata.name,
                "uid": job.metadata.uid or "",
                "controller": True,
            }
        ],
    }
