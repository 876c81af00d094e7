"""kubectl as tests use it: manifests in, objects out, and conditions that are awaited."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

from cluster import Cluster, FailedError

from .reading import Reader, login_to

Manifest = dict[str, Any]
Found = TypeVar("Found")

_LOOK_SECONDS = 0.3


class Kube:
    """One namespace of a cluster."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        login = login_to(cluster.kubeconfig)
        self._reader = None if login is None else Reader(login, namespace)

    def run(self, *words: str, given: str | None = None, seconds: float = 60) -> str:
        """Run kubectl in the namespace."""
        return self.cluster.run("--namespace", self.namespace, *words, given=given, seconds=seconds)

    def apply(self, manifest: Manifest) -> None:
        """Apply a manifest; FailedError with the API server's words if it is refused."""
        self.run("apply", "--server-side", "--filename", "-", given=json.dumps(manifest))

    def refusal(self, manifest: Manifest) -> str:
        """Return what the API server says of a manifest that it must not take; nothing is created either way."""
        try:
            self.run("create", "--dry-run=server", "--filename", "-", given=json.dumps(manifest))
        except FailedError as error:
            return str(error)
        return ""

    def get(self, kind: str, name: str) -> Manifest | None:
        """Return an object; None if it is not there."""
        if self._reader is not None and self._reader.knows(kind):
            return self._reader.get(kind, name)
        found = self.run("get", kind, name, "--ignore-not-found", "--output", "json")
        return json.loads(found) if found.strip() else None

    def every(self, kind: str, selector: str = "") -> list[Manifest]:
        """Return objects."""
        if self._reader is not None and self._reader.knows(kind):
            return self._reader.every(kind, selector)
        words = ("--selector", selector) if selector else ()
        items: list[Manifest] = json.loads(self.run("get", kind, *words, "--output", "json"))["items"]
        return items

    def status(self, job: str) -> Manifest:
        """Return the status of a job; empty if there is none."""
        found = self.get("omnilearnjob", job) or {}
        status: Manifest = found.get("status", {})
        return status

    def condition(self, job: str, kind: str) -> Manifest:
        """Return a condition of a job; empty if there is none."""
        conditions: list[Manifest] = self.status(job).get("conditions", [])
        return next((each for each in conditions if each["type"] == kind), {})

    def written(self, job: str) -> datetime:
        """Return when the status of a job was written last, by the API server's clock."""
        found = json.loads(self.run("get", "omnilearnjob", job, "--show-managed-fields", "--output", "json"))
        fields = found["metadata"]["managedFields"]
        return max(datetime.fromisoformat(each["time"]) for each in fields if each.get("subresource") == "status")

    def members(self, job: str) -> int:
        """Return how many members train a job: none before its first step is told."""
        status = self.status(job)
        found: int = status.get("workers", {}).get("members", 0) if status.get("step") else 0
        return found

    def trainers(self, job: str) -> list[str]:
        """Return the names of the pods that have a share in the newest generation."""
        newest = str(self.status(job).get("generation"))
        pods = [pod["metadata"] for pod in self.pods(job) if not is_over(pod)]
        return [each["name"] for each in pods if each["annotations"].get("omnilearn.dev/generation") == newest]

    def train(self, job: str, count: int) -> bool:
        """Tell whether so many pods train together, and a step was told; a status may tell of one that is gone."""
        return self.members(job) == count == len(self.trainers(job))

    def pods(self, job: str) -> list[Manifest]:
        """Return the pods of a job."""
        return self.every("pods", f"omnilearn.dev/job={job}")

    def events(self, job: str) -> list[tuple[str, str]]:
        """Return the events of a job: reason and message."""
        found = [each for each in self.every("events") if each["involvedObject"]["name"] == job]
        return [(each["reason"], each["message"]) for each in found]

    def until(self, what: str, true: Callable[[], Found], seconds: float) -> Found:
        """Return what is true once it is; fail with a sentence if it is not within this time."""
        until = time.monotonic() + seconds
        while not (found := true()):
            if time.monotonic() > until:
                raise AssertionError(f"{what}: not within {seconds:g} s")
            time.sleep(_LOOK_SECONDS)
        return found

    def story(self) -> str:
        """Return what has happened in the namespace, for whoever reads of a failed test."""
        parts = [
            self._tell("get", "omnilearnjobs,pods", "--output", "wide"),
            self._tell("describe", "omnilearnjobs"),
            self._tell("get", "events", "--sort-by=.lastTimestamp"),
        ]
        parts += [
            f"--- log of {pod}\n" + self._tell("logs", pod, "--all-containers", "--tail=40")
            for pod in self._names("pods")
        ]
        return "\n".join(parts)

    def _names(self, kind: str) -> list[str]:
        return [each.rpartition("/")[2] for each in self._tell("get", kind, "--output", "name").split()]

    def _tell(self, *words: str) -> str:
        try:
            return self.run(*words)
        except FailedError as error:
            return str(error)


def is_over(pod: Manifest) -> bool:
    """Tell whether a pod has ended, or will soon."""
    return "deletionTimestamp" in pod["metadata"] or pod["status"]["phase"] in ("Succeeded", "Failed")
