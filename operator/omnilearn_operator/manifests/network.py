"""How the workers of a job find each other, and who else may reach them."""

from __future__ import annotations

from omnilearn_core.api.job import OmniLearnJob

from .owned import Manifest, labels_of, metadata_of


def service_of(job: OmniLearnJob) -> Manifest:
    """Return the headless Service that gives the workers their host names, ready or not."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata_of(job, job.metadata.name),
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": labels_of(job)},
    }


def network_policy_of(job: OmniLearnJob) -> Manifest:
    """Return the policy that lets only workers of this job connect to its workers."""
    selector = {"matchLabels": labels_of(job)}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata_of(job, job.metadata.name),
        "spec": {
            "podSelector": selector,
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": selector}]}],
        },
    }
