"""A worker's pod as it was last seen: what matters of its manifest, in plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from omnilearn_core.api import names

_LONGEST_MESSAGE = 2000
_MOST_DIGITS = 15
_FIRST_YEAR, _LAST_YEAR = 1970, 2200


@dataclass(frozen=True, slots=True)
class Ended:
    """How the trainer's container ended."""

    code: int
    reason: str = ""
    message: str = ""
    """The end of what it has written."""

    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Assigned:
    """What its annotations say of its share."""

    share: int
    generation: int
    plan: int


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of a worker."""

    name: str
    uid: str
    worker: str
    attempt: int
    template: str
    """Hash of the template that it was made from."""

    running: bool = False
    """The trainer runs."""

    leaving: bool = False
    """It has been asked to go."""

    disrupted: str = ""
    """Why the cluster took it away, if it did."""

    unheard: bool = False
    """Its node is not ready: what runs there, nobody knows."""

    stuck: str = ""
    """Why it does not run yet, in the cluster's words."""

    ended: Ended | None = None
    alive: bool = True
    """Some container of it may still run."""

    gone: bool = False
    """The API server has it no more."""

    owner: str = ""
    """UID of the job that it belongs to."""

    authorities: str = ""
    """The certificates that it was told to trust."""

    assigned: Assigned | None = None
    memory_bound: int | None = None
    """How many samples it may compute at once, if an earlier attempt was out of memory."""

    created: datetime | None = None
    """When the API server took it."""

    creating_since: datetime | None = None
    """When it was given to a node, if that has not started it yet."""

    @property
    def over(self) -> bool:
        """True if this attempt trains no more, or will not for long."""
        return self.leaving or self.ended is not None or bool(self.disrupted)


def pod_from(manifest: Mapping[str, Any]) -> Pod | None:
    """Return the pod of a manifest; None if it is not a worker's."""
    metadata, status = manifest.get("metadata", {}), manifest.get("status", {})
    labels, annotations = metadata.get("labels", {}), metadata.get("annotations", {})
    attempt = labels.get(names.ATTEMPT_LABEL, "")
    if names.WORKER_LABEL not in labels or not _is_number(attempt):
        return None
    own = (metadata["name"], metadata.get("namespace") or "", metadata.get("uid", ""))
    if not all(isinstance(each, str) for each in (*own, *labels.values(), *annotations.values())):
        raise TypeError("a name, a label or an annotation is no text")
    trainer = _trainer_status(manifest)
    state = trainer.get("state", {})
    return Pod(
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        worker=labels[names.WORKER_LABEL],
        attempt=int(attempt),
        template=annotations.get(names.TEMPLATE_HASH_ANNOTATION, ""),
        running="running" in state,
        leaving="deletionTimestamp" in metadata,
        disrupted=_disruption(status),
        unheard=_unheard(status),
        stuck=_stuck(status, state),
        ended=_ended(status, state),
        alive=_alive(status),
        owner=next((each.get("uid", "") for each in metadata.get("ownerReferences", []) if each.get("controller")), ""),
        authorities=annotations.get(names.AUTHORITIES_ANNOTATION, ""),
        assigned=_assigned(annotations),
        memory_bound=_whole(annotations.get(names.MEMORY_BOUND_ANNOTATION, "")),
        created=_moment(metadata.get("creationTimestamp")),
        creating_since=_creating_since(status, state),
    )


def _alive(status: Mapping[str, Any]) -> bool:
    """Tell whether something may still run: the phase is told a moment after the last container has ended."""
    states = [each.get("state", {}) for each in status.get("containerStatuses", [])]
    ended = bool(states) and all("terminated" in state for state in states)
    return not ended and status.get("phase") not in ("Succeeded", "Failed")


def _assigned(annotations: Mapping[str, str]) -> Assigned | None:
    keys = (names.SHARE_ANNOTATION, names.GENERATION_ANNOTATION, names.PLAN_ANNOTATION)
    values = [annotations.get(key, "") for key in keys]
    # Anybody may edit an annotation: what is no number is as good as nothing.
    return Assigned(*map(int, values)) if all(map(_is_number, values)) else None


def _whole(text: str) -> int | None:
    return int(text) if _is_number(text) and int(text) > 0 else None


def _is_number(text: str) -> bool:
    """Tell whether a text is a number of this world: of thousands of digits, Python makes none."""
    return text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS


def _creating_since(status: Mapping[str, Any], state: Mapping[str, Any]) -> datetime | None:
    """Return since when a node prepares a pod: volumes are mounted, an image is pulled; its status says not which."""
    if status.get("phase") != "Pending" or state.get("waiting", {}).get("reason", "") not in ("", "ContainerCreating"):
        return None
    for condition in status.get("conditions", []):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "True":
            return _moment(condition.get("lastTransitionTime"))
    return None


def _trainer_status(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    containers = [each["name"] for each in manifest.get("spec", {}).get("containers", [])]
    name = names.TRAINER if names.TRAINER in containers else next(iter(containers), "")
    statuses = manifest.get("status", {}).get("containerStatuses", [])
    return next((each for each in statuses if each.get("name") == name), {})


def _disruption(status: Mapping[str, Any]) -> str:
    for condition in status.get("conditions", []):
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            return str(condition.get("reason") or "disrupted")
    return ""


def _unheard(status: Mapping[str, Any]) -> bool:
    """Tell whether a pod is not ready because its node is not.

    The kubelet, which says that a pod is not ready, says why. If it is not heard of, the control plane says it in its
    place, without a reason, and leaves the containers as ready as they were.
    """
    conditions = {each.get("type"): each for each in status.get("conditions", [])}
    ready, containers = conditions.get("Ready", {}), conditions.get("ContainersReady", {})
    return ready.get("status") == "False" and not ready.get("reason") and containers.get("status") == "True"


def _stuck(status: Mapping[str, Any], state: Mapping[str, Any]) -> str:
    """Say why a pod does not run: its image, or that no node takes it."""
    for each in (*_init_states(status), state):
        waiting = each.get("waiting", {})
        if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            return _sentence(waiting)
    for condition in status.get("conditions", []):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return _sentence(condition)
    return ""


def _ended(status: Mapping[str, Any], state: Mapping[str, Any]) -> Ended | None:
    """Return how the trainer ended; a pod that failed as a whole (evicted, node lost) has no code and no time."""
    terminated = state.get("terminated")
    if terminated is not None:
        return _end(terminated, str(terminated.get("reason", "")))
    if status.get("phase") == "Failed":
        failed = [each["terminated"] for each in _init_states(status) if each.get("terminated", {}).get("exitCode")]
        if failed:
            return _end(failed[0], "an init container")
        return Ended(-1, str(status.get("reason", "")), str(status.get("message", ""))[-_LONGEST_MESSAGE:])
    return None


def _end(terminated: Mapping[str, Any], reason: str) -> Ended:
    message = str(terminated.get("message", ""))[-_LONGEST_MESSAGE:]
    return Ended(int(terminated.get("exitCode", -1)), reason, message, _moment(terminated.get("finishedAt")))


def _init_states(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [each.get("state", {}) for each in status.get("initContainerStatuses", [])]


def _moment(text: str | None) -> datetime | None:
    """Return a time; None if it is none of this age: nothing could be added to the last day that there is."""
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    in_zone = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return in_zone if _FIRST_YEAR <= in_zone.year < _LAST_YEAR else None


def _sentence(of: Mapping[str, Any]) -> str:
    reason, message = str(of.get("reason") or ""), str(of.get("message") or "")
    return f"{reason}: {message}"[:_LONGEST_MESSAGE] if message else reason
