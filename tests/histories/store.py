"""Objects as an API server keeps them: UIDs, versions, conflicts, graceful deletion, owners. Everything is at once."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from copy import deepcopy
from typing import NamedTuple

from pydantic import ValidationError

from omnilearn_core.api import names
from omnilearn_core.api.job import OmniLearnJob
from omnilearn_operator.api import ApiError, Manifest
from operations import merge

from .clock import Clock

NAMESPACE = "team"
BAD_IMAGE = "no image at all"


class Change(NamedTuple):
    """What a watch tells of."""

    type: str
    object: Manifest


class Store:
    """All objects of a namespace."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.objects: dict[tuple[str, str], Manifest] = {}
        self.version = 100
        self.quota: int | None = None
        """The most pods that may be there at once."""

        self.listeners: list[Callable[[str, Change], None]] = []
        self._uids = itertools.count(1)

    def get(self, kind: str, name: str) -> Manifest:
        found = self.objects.get((kind, name))
        if found is None:
            raise ApiError(404, "NotFound", f"{kind} {name} is not there")
        return found

    def every(self, kind: str, selector: str = "") -> list[Manifest]:
        key, _, value = selector.partition("=")
        found = [each for (what, _), each in self.objects.items() if what == kind]
        return [each for each in found if not key or each["metadata"].get("labels", {}).get(key) == value]

    def pods(self, uid: str | None = None) -> list[Manifest]:
        """Return the pods of a job, or of all jobs."""
        return [pod for pod in self.every("Pod") if uid is None or owner_of(pod) == uid]

    def job(self, name: str) -> Manifest | None:
        return self.objects.get((names.KIND, name))

    def create(self, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        if (kind, name) in self.objects:
            raise ApiError(409, "AlreadyExists", f"{kind} {name} is there already")
        if kind == "Pod":
            self._admit(manifest)
        made = deepcopy(manifest)
        made["metadata"] |= {"uid": f"u{next(self._uids)}", "creationTimestamp": self.clock.text(), "generation": 1}
        if not dry_run:
            self.objects[kind, name] = made
            self._changed("ADDED", made)
        return made

    def _admit(self, pod: Manifest) -> None:
        if any(each.get("image") == BAD_IMAGE for each in pod["spec"]["containers"]):
            raise ApiError(422, "Invalid", f"Pod {pod['metadata']['name']} is invalid: spec.containers[0].image")
        if self.quota is not None and sum(map(_counts, self.pods())) >= self.quota:
            raise ApiError(403, "Forbidden", f"exceeded quota: {self.quota} pods")

    def update(self, kind: str, name: str, change: Callable[[Manifest], None]) -> Manifest:
        found = self.get(kind, name)
        change(found)
        self._changed("MODIFIED", found)
        return found

    def merge(self, kind: str, name: str, body: Manifest) -> Manifest:
        """Merge something into an object; of a job, only its status."""
        found, after = self.get(kind, name), deepcopy(self.get(kind, name))
        given, actual = body.get("metadata", {}), found["metadata"]
        if given.get("resourceVersion", actual["resourceVersion"]) != actual["resourceVersion"]:
            raise ApiError(409, "Conflict", f"{kind} {name} has changed")
        if kind == names.KIND:
            merge(after, {"status": body["status"]})
            _validate(after)
        elif given.get("uid", uid_of(found)) != uid_of(found):
            raise ApiError(422, "Invalid", "metadata.uid: field is immutable")
        else:
            merge(after, body)
        if after == found:
            return found
        self.objects[kind, name] = after
        self._changed("MODIFIED", after)
        return after

    def delete(self, kind: str, name: str, uid: str = "", *, force: bool = False) -> None:
        """Delete an object: a pod on a node is asked to go, whatever else is gone at once."""
        found = self.get(kind, name)
        if uid and found["metadata"]["uid"] != uid:
            raise ApiError(409, "Conflict", f"{kind} {name} is another one by now")
        if kind == "Pod" and not force and found.get("status", {}).get("hostIP"):
            if "deletionTimestamp" not in found["metadata"]:
                self.update(kind, name, lambda pod: pod["metadata"].update(deletionTimestamp=self.clock.text()))
            return
        del self.objects[kind, name]
        self._changed("DELETED", found)

    def remove(self, pod: Manifest) -> None:
        """Take away a pod that has ended, as its node does."""
        if self.objects.get(("Pod", pod["metadata"]["name"]), {}).get("metadata", {}).get("uid") == uid_of(pod):
            self.delete("Pod", pod["metadata"]["name"], force=True)

    def collect_garbage(self) -> None:
        """Delete what belongs to an object that is gone."""
        there = {each["metadata"]["uid"] for each in self.every(names.KIND)}
        for kind, name in list(self.objects):
            found = self.objects.get((kind, name))
            owner = "" if found is None else owner_of(found)
            if owner and owner not in there:
                self.delete(kind, name)

    def _changed(self, kind: str, found: Manifest) -> None:
        self.version += 1
        found["metadata"]["resourceVersion"] = str(self.version)
        seen = deepcopy(found)
        for listener in list(self.listeners):
            listener(found["kind"], Change(kind, seen))


def uid_of(found: Manifest) -> str:
    return str(found["metadata"]["uid"])


def owner_of(found: Manifest) -> str:
    owners = found["metadata"].get("ownerReferences", [])
    return next((str(each["uid"]) for each in owners if each.get("controller")), "")


def worker_of(pod: Manifest) -> str:
    return str(pod["metadata"]["labels"][names.WORKER_LABEL])


def is_over(pod: Manifest) -> bool:
    """Tell whether a pod trains no more, or will not for long."""
    status = pod.get("status", {})
    target = any(
        each["type"] == "DisruptionTarget" and each["status"] == "True" for each in status.get("conditions", [])
    )
    return "deletionTimestamp" in pod["metadata"] or has_ended(pod) or target


def has_ended(pod: Manifest) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def runs(pod: Manifest) -> bool:
    return any("running" in each["state"] for each in pod.get("status", {}).get("containerStatuses", []))


def _counts(pod: Manifest) -> bool:
    return not has_ended(pod)


def _validate(job: Manifest) -> None:
    try:
        OmniLearnJob.from_manifest(job)
    except ValidationError as error:
        raise ApiError(422, "Invalid", str(error)) from None
