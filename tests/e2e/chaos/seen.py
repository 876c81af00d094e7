"""The job at one moment, as the API server shows it: its status, its pods and its events. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from e2e.kube import Manifest

_MILLI = 1000
TAKEN = "PreemptionByScheduler"
"""What a pod says that had to make room for one of a higher priority."""


@dataclass(frozen=True, slots=True)
class Pod:
    """What matters of a worker's pod."""

    name: str
    uid: str
    worker: str
    attempt: int
    running: bool
    going: bool
    """It has been asked to go, or was taken away."""

    ended: bool
    code: int | None = None
    message: str = ""
    disrupted: str = ""
    """Why the cluster has taken it away."""

    restarts: int = 0
    generation: int | None = None
    """The newest generation in which it was given a share."""

    millicpus: int = 0
    """The CPU limit that its container has."""

    address: str = ""
    bound: int | None = None
    """How many samples it may compute at once."""

    @property
    def over(self) -> bool:
        """True if it trains no more, or will not for long."""
        return self.going or self.ended


@dataclass(frozen=True, slots=True)
class Seen:
    """One look."""

    at: float
    """Seconds of a clock that only goes forward."""

    phase: str = ""
    step: int = 0
    generation: int = 0
    members: Mapping[str, int] = field(default_factory=dict)
    """The shares of those who train."""

    failures: int = 0
    preemptions: int = 0
    accuracy: float | None = None
    pods: tuple[Pod, ...] = ()
    told: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """How often each event of the job was told, by reason and message."""

    kubelets: int = 0
    """How often the node has told that its kubelet starts."""

    operator: str = ""
    """The operator's pod that is ready."""

    def tellings(self, *reasons: str, about: str = "") -> int:
        """Return how often something of these reasons was told about a worker, or at all."""
        return sum(
            count for (reason, message), count in self.told.items() if reason in reasons and _names(message, about)
        )

    def part(self, worker: str) -> float:
        """Return a worker's part of all shares."""
        return self.members.get(worker, 0) / max(sum(self.members.values()), 1)

    def pod(self, uid: str) -> Pod | None:
        """Return a pod that is there."""
        return next((pod for pod in self.pods if pod.uid == uid), None)

    def training(self) -> list[Pod]:
        """Return the pods that are members of the present generation, by worker."""
        found = [
            pod
            for pod in self.pods
            if pod.worker in self.members and pod.generation == self.generation and pod.running and not pod.over
        ]
        return sorted(found, key=lambda pod: pod.worker)


def _names(message: str, worker: str) -> bool:
    """Tell whether a sentence is about a worker: ``a-1`` is not ``a-10``."""
    words = message.replace(",", " ").replace(":", " ").split()
    return not worker or worker in words


def seen(at: float, job: Manifest, pods: Manifest, events: Manifest, **more: Any) -> Seen:
    """Return a look from what the API server has answered."""
    status = job.get("status", {})
    workers = status.get("workers", {})
    return Seen(
        at=at,
        phase=status.get("phase", ""),
        step=status.get("step", 0),
        generation=status.get("generation", 0),
        members={each["worker"]: each["share"] for each in status.get("members", [])},
        failures=workers.get("failures", 0),
        preemptions=workers.get("preemptions", 0),
        accuracy=status.get("logged", {}).get("accuracy"),
        pods=tuple(pod_of(each) for each in pods["items"]),
        told={(each["reason"], each["message"]): each.get("count", 1) for each in events["items"]},
        **more,
    )


def pod_of(manifest: Manifest) -> Pod:
    """Return what matters of a pod."""
    metadata, status = manifest["metadata"], manifest["status"]
    labels, annotations = metadata["labels"], metadata.get("annotations", {})
    container: Manifest = next(iter(status.get("containerStatuses", [])), {})
    state = container.get("state", {})
    terminated: Manifest = state.get("terminated", {})
    disrupted = _disruption(status)
    return Pod(
        name=metadata["name"],
        uid=metadata["uid"],
        worker=labels["omnilearn.dev/worker"],
        attempt=int(labels["omnilearn.dev/attempt"]),
        running="running" in state,
        going="deletionTimestamp" in metadata or bool(disrupted),
        ended=bool(terminated) or status.get("phase") in ("Succeeded", "Failed"),
        code=terminated.get("exitCode"),
        message=terminated.get("message", ""),
        disrupted=disrupted,
        restarts=container.get("restartCount", 0),
        generation=_whole(annotations.get("omnilearn.dev/generation")),
        millicpus=millicpus(container.get("resources", {}).get("limits", {}).get("cpu", "0")),
        address=status.get("podIP", ""),
        bound=_whole(annotations.get("omnilearn.dev/memory-bound")),
    )


def _disruption(status: Manifest) -> str:
    conditions: list[Manifest] = status.get("conditions", [])
    found = [each for each in conditions if each["type"] == "DisruptionTarget" and each["status"] == "True"]
    return str(found[0].get("reason", "")) if found else ""


def _whole(text: str | None) -> int | None:
    return int(text) if text else None


def millicpus(quantity: str) -> int:
    """Return CPUs as the API server writes them in thousandths."""
    return int(quantity[:-1]) if quantity.endswith("m") else round(float(quantity) * _MILLI)
