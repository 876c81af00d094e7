"""Jobs for the cluster: the digits example with the workers that a test needs."""

from __future__ import annotations

from typing import Any

Manifest = dict[str, Any]

RUNTIME_IMAGE = "omnilearn-runtime:0.1.0"


# All have room beside the jobs of other tests.
REQUESTS = {"cpu": "50m", "memory": "256Mi"}


def group(name: str, cpu: str, replicas: int = 1, *, limits: dict[str, str] | None = None, **env: str) -> Manifest:
    """Return a group that trains the digits example; it asks for little of what it may use."""
    trainer = {
        "name": "trainer",
        "image": RUNTIME_IMAGE,
        "command": ["python", "train.py"],
        "workingDir": "/examples/digits",
        "env": [{"name": key, "value": value} for key, value in env.items()],
        "resources": {"limits": {"cpu": cpu, "memory": "2Gi", **(limits or {})}, "requests": dict(REQUESTS)},
        "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
    }
    return {"name": name, "replicas": replicas, "template": {"spec": {"containers": [trainer]}}}


def job(name: str, *groups: Manifest, **spec: Any) -> Manifest:
    """Return a job with a global batch of 256."""
    return {
        "apiVersion": "omnilearn.dev/v1alpha1",
        "kind": "OmniLearnJob",
        "metadata": {"name": name},
        "spec": {"batch": {"global": 256}, "workers": list(groups), **spec},
    }


def tiny(name: str, **trainer: Any) -> Manifest:
    """Return a job of one worker whose trainer is changed."""
    made = group("a", "500m", EPOCHS="1", WIDTH="8")
    made["template"]["spec"]["containers"][0].update(trainer)
    return job(name, made)
