"""Pods as kubelets run them: placed, started, ended, told to go; and what can happen to them meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from enum import StrEnum

from omnilearn_operator.api import ApiError, Manifest

from .store import Change, Store, has_ended, is_over, owner_of, runs, uid_of

_GRACE_SECONDS = 30.0
_PLACE_SECONDS, _START_SECONDS, _REMOVE_SECONDS = 0.2, 1.0, 0.2
_AGAIN_SECONDS = 5.0


class Cause(StrEnum):
    """What really was the end of a pod."""

    FAILED = "failed"
    TAKEN = "taken"
    """Preempted, evicted, lost with its node, not run, deleted by a user, or started anew."""

    LET_GO = "let go"
    """The operator has deleted it."""

    FINISHED = "finished"


@dataclass
class Weather:
    """How the cluster is now; all calm at first."""

    image_is_missing: bool = False
    is_full: bool = False
    """No node takes a pod."""

    rejects: bool = False
    """Nodes do not run what was placed on them."""

    crash: int | None = None
    """What scripts exit with as soon as they run, if they do."""

    last_code: int = 143
    """What scripts exit with when they are told to go."""

    last_seconds: float = 1.0
    """How long they take to go."""

    skew: float = 0.0
    """How wrong the nodes' clocks are."""


class Nodes:
    """All kubelets and the scheduler."""

    def __init__(self, store: Store) -> None:
        self.store, self.weather = store, Weather()
        self.causes: dict[str, Cause] = {}
        """How the pods that are over have ended, by UID: what is true, whoever knows it."""

        self.marked: set[str] = set()
        """Pods of which it was said that they are taken away."""

        self.pods_of: dict[str, set[str]] = {}
        """All pods that there ever were, by the job's UID."""

        self.lost: set[str] = set()
        """Pods on nodes that nobody hears of."""

        store.listeners.append(self._heard)

    def _heard(self, kind: str, change: Change) -> None:
        if kind != "Pod":
            return
        pod = change.object
        if change.type == "ADDED":
            self.pods_of.setdefault(owner_of(pod), set()).add(uid_of(pod))
            self._later(_PLACE_SECONDS, pod, self._place)
        elif change.type == "DELETED":
            self.causes.setdefault(uid_of(pod), Cause.TAKEN)
        elif "deletionTimestamp" in pod["metadata"]:
            self.causes.setdefault(uid_of(pod), Cause.TAKEN)
            self._later(_REMOVE_SECONDS if has_ended(pod) else self._patience(), pod, self._go)

    def _patience(self) -> float:
        return min(self.weather.last_seconds, _GRACE_SECONDS)

    def _later(self, seconds: float, pod: Manifest, do: Callable[[Manifest], None]) -> None:
        """Do something with a pod after a while, if it is still the same one."""
        name, uid = pod["metadata"]["name"], uid_of(pod)

        def now() -> None:
            found = self.store.objects.get(("Pod", name))
            if found is not None and uid_of(found) == uid and uid not in self.lost:
                do(found)

        asyncio.get_running_loop().call_later(seconds, now)

    def _place(self, pod: Manifest) -> None:
        if _is_told_to_go(pod):
            return
        if self.weather.is_full:
            full = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "Insufficient cpu"}
            self._set(pod, {"phase": "Pending", "conditions": [full]})
            self._later(_AGAIN_SECONDS, pod, self._place)
        elif self.weather.rejects:
            self.causes.setdefault(uid_of(pod), Cause.TAKEN)
            self._set(pod, {"phase": "Failed", "reason": "OutOfcpu", "hostIP": "10.0.0.1"})
        else:
            waiting = {"waiting": {"reason": "ContainerCreating"}}
            self._set(pod, {"phase": "Pending", "hostIP": "10.0.0.1", **_container(waiting)})
            self._later(_START_SECONDS, pod, self._start)

    def _start(self, pod: Manifest) -> None:
        if _is_told_to_go(pod):
            return
        if self.weather.image_is_missing:
            waiting = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
            self._set(pod, {"phase": "Pending", "hostIP": "10.0.0.1", **_container(waiting)})
            self._later(_AGAIN_SECONDS, pod, self._start)
            return
        running = {"running": {"startedAt": self.store.clock.text(self.weather.skew)}}
        self._set(pod, {"phase": "Running", "hostIP": "10.0.0.1", **_container(running)})
        if self.weather.crash is not None:
            code = self.weather.crash
            self._later(0.5, pod, lambda found: self.ends(found, code))

    def _go(self, pod: Manifest) -> None:
        """End what was told to go, then take it away."""
        if has_ended(pod) or not runs(pod):
            self.store.remove(pod)
            return
        killed = self.weather.last_seconds > _GRACE_SECONDS
        self._end(pod, 137 if killed else self.weather.last_code)

    def ends(self, pod: Manifest, code: int, message: str = "") -> None:
        """Have the script of a pod end."""
        if not runs(pod) or _is_told_to_go(pod):
            return
        done = message and json.loads(message).get("type") == "done" and code == 0
        cause = Cause.FINISHED if done else Cause.TAKEN if code in (75, 143) else Cause.FAILED
        self.causes.setdefault(uid_of(pod), cause)
        if cause is Cause.FAILED:  # also one that was to be taken away, and was not
            self.causes[uid_of(pod)] = cause
        self._end(pod, code, message)

    def ends_later(self, seconds: float, pod: Manifest, code: int, message: str) -> None:
        """Have the script of a pod end after a while."""
        self._later(seconds, pod, lambda found: self.ends(found, code, message))

    def _end(self, pod: Manifest, code: int, message: str = "") -> None:
        ended = {"exitCode": code, "finishedAt": self.store.clock.text(self.weather.skew), "message": message}
        state = {"terminated": ended | {"reason": "Completed" if code == 0 else "Error"}}
        self._set(pod, {"phase": "Failed" if code else "Succeeded", **_container(state)})

    # What happens to pods

    def is_well(self, pod: Manifest) -> bool:
        """Tell whether a pod trains, or will, and nobody was ever told otherwise."""
        return uid_of(pod) not in self.causes and not is_over(pod)

    def evict(self, pod: Manifest) -> None:
        """Evict a pod by the API: it is marked, then told to go."""
        self.mark(pod, "EvictionByEvictionAPI")
        self.store.delete("Pod", pod["metadata"]["name"])

    def press(self, pod: Manifest) -> None:
        """Have a node that runs out of memory end a pod: it stays, as failed."""
        if runs(pod) and not _is_told_to_go(pod):
            self.mark(pod, "TerminationByKubelet")
            self._set(pod, {"phase": "Failed", "reason": "Evicted", "containerStatuses": []})

    def lose(self, pod: Manifest) -> None:
        """Lose the node of a pod: it is marked and told to go, and nobody knows what it does."""
        if pod.get("status", {}).get("hostIP") and not has_ended(pod):
            self.lost.add(uid_of(pod))
            self.evict(pod)

    def silence(self, pod: Manifest) -> None:
        """Lose the node of a pod, which is not given up yet: the control plane says that it is not ready."""
        if runs(pod) and not _is_told_to_go(pod):
            self.causes.setdefault(uid_of(pod), Cause.TAKEN)
            self.marked.add(uid_of(pod))
            self.lost.add(uid_of(pod))
            self._set(pod, {"conditions": _ready("False")})

    def hear(self, pod: Manifest) -> None:
        """Have the node of a pod come back, with what runs there."""
        if uid_of(pod) in self.lost:
            self.lost.discard(uid_of(pod))
            self._set(pod, {"conditions": _ready("True")})
            if "deletionTimestamp" in pod["metadata"]:
                self._later(self._patience(), pod, self._go)

    def find(self) -> None:
        """Have all lost nodes come back; what was on them has ended."""
        lost, self.lost = self.lost, set()
        for pod in [each for each in self.store.pods() if uid_of(each) in lost]:
            self.store.remove(pod)

    def mark(self, pod: Manifest, reason: str, status: str = "True") -> None:
        """Say that a pod is about to be taken away, or that it is not after all."""
        target = {"type": "DisruptionTarget", "status": status, "reason": reason}
        if status == "True":
            # Whoever is told so has to believe it, also if it comes to nothing.
            self.causes.setdefault(uid_of(pod), Cause.TAKEN)
            self.marked.add(uid_of(pod))
        others = [each for each in pod.get("status", {}).get("conditions", []) if each["type"] != target["type"]]
        self._set(pod, {"conditions": [*others, target]})

    def _set(self, pod: Manifest, status: Manifest) -> None:
        def change(found: Manifest) -> None:
            found["status"] = deepcopy(found.get("status", {})) | status

        with suppress(ApiError):  # it is gone
            self.store.update("Pod", pod["metadata"]["name"], change)


def _is_told_to_go(pod: Manifest) -> bool:
    return has_ended(pod) or "deletionTimestamp" in pod["metadata"]


def _ready(status: str) -> list[Manifest]:
    return [{"type": "Ready", "status": status}, {"type": "ContainersReady", "status": "True"}]


def _container(state: Manifest) -> Manifest:
    return {"containerStatuses": [{"name": "trainer", "state": state}]}
