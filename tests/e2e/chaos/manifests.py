"""What the chaos applies: the job with its script, classes of priority, and a pod that needs somebody's place. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from e2e.jobs import RUNTIME_IMAGE, Manifest, group, job

from .plan import FEWEST, WORKERS

LIMITS = {"big": 600, "middle": 450, "small": 350}
"""The CPU limit of each worker in thousandths: together they leave half a CPU of two to the cluster."""

SILENT_SECONDS = 6
GRACE_SECONDS = 10
EPOCH_SAMPLES = 1437
LOW, HIGH = "omnilearn-chaos-low", "omnilearn-chaos-high"
BLOCKER = "blocker"
_SCRIPT = "chaos"


def chaos_job(name: str, claim: str, **env: str) -> Manifest:
    """Return a job of three unlike workers that saves often and trains until it is told to stop."""
    spec: dict[str, Any] = {
        "membership": {"minWorkers": FEWEST, "maxWorkers": WORKERS, "silentAfterSeconds": SILENT_SECONDS},
        "checkpoint": {"claimName": claim, "everySeconds": 5},
        "restart": {"maxFailures": 2},
    }
    return job(name, *(_group(each, limit, env) for each, limit in LIMITS.items()), **spec)


def _group(name: str, limit: int, env: dict[str, str]) -> Manifest:
    made = group(name, f"{limit}m", 1, limits={"memory": "1Gi"}, **env)
    pod = made["template"]["spec"]
    pod |= {"terminationGracePeriodSeconds": GRACE_SECONDS, "priorityClassName": LOW}
    pod["volumes"] = [{"name": _SCRIPT, "configMap": {"name": _SCRIPT}}]
    mounts = [{"name": _SCRIPT, "mountPath": "/chaos"}]
    pod["containers"][0] |= {"command": ["python", "/chaos/work.py"], "volumeMounts": mounts}
    return made


def script() -> Manifest:
    """Return what the pods run, as an object that they can mount."""
    text = Path(__file__).with_name("work.py").read_text(encoding="utf-8")
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": _SCRIPT}, "data": {"work.py": text}}


def priorities() -> list[Manifest]:
    """Return the classes of the workers and of the blocker, both below everybody else's: nobody else loses a place."""
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "preemptionPolicy": policy,
            "description": "for tests of the OmniLearn operator",
        }
        for name, value, policy in ((LOW, -20, "Never"), (HIGH, -10, "PreemptLowerPriority"))
    ]


def blocker(number: int, millicpus: int) -> Manifest:
    """Return a pod that asks for so much and does nothing."""
    container = {
        "name": "sleeper",
        "image": RUNTIME_IMAGE,
        "command": ["sleep", "600"],
        "resources": {"requests": {"cpu": f"{millicpus}m"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{BLOCKER}-{number}"},
        "spec": {
            "priorityClassName": HIGH,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container],
        },
    }


def resized(millicpus: int) -> Manifest:
    """Return the change of a pod's CPU limit."""
    cpu = {"cpu": f"{millicpus}m"}
    return {"spec": {"containers": [{"name": "trainer", "resources": {"limits": cpu, "requests": cpu}}]}}


def eviction(pod: str, namespace: str) -> Manifest:
    """Return the wish that a pod be evicted."""
    metadata = {"name": pod, "namespace": namespace}
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
