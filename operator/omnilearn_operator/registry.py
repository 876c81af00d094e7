"""Jobs and pods as they were last seen. Filled by the watch and by lists; read by everybody else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from pydantic import ValidationError

from omnilearn_core.api import names
from omnilearn_core.api.job import OmniLearnJob

from .observed import Pod, pod_from

logger = logging.getLogger(__name__)

# Versions are numbers of 64 bits.
_MOST_DIGITS = 20
_MOST_PAST = 1000

# What reading a manifest raises that is not as Kubernetes has it: none must keep the others from being read.
_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


class Key(NamedTuple):
    """Which job."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Scope(NamedTuple):
    """What a list is of: a kind, in a namespace or, if that is empty, in all."""

    kind: str
    namespace: str

    def covers(self, key: Key) -> bool:
        """Tell whether a job and its pods are in that namespace."""
        return self.namespace in ("", key.namespace)


class Registry:
    """What there is. News may come in any order, and twice: what is older than what is known is ignored."""

    def __init__(self) -> None:
        self._jobs: dict[Key, OmniLearnJob] = {}
        self._pods: dict[Key, dict[str, Pod]] = {}
        self._versions: dict[str, int] = {}
        self._awaited: dict[str, asyncio.Event] = {}
        self._past: dict[str, None] = {}
        """UIDs of jobs that are gone: the answer to what was asked before may come later."""

        self.unreadable: set[Key] = set()
        """Jobs that this version does not understand."""

    @property
    def jobs(self) -> Mapping[Key, OmniLearnJob]:
        """All jobs."""
        return self._jobs

    @property
    def pod_count(self) -> int:
        """How many pods there are, of all jobs."""
        return len(self._versions)

    def pods(self, key: Key) -> tuple[Pod, ...]:
        """Return the pods of a job that belong to it: those of an earlier job of that name do not.

        A pod that is gone stays among them, marked, until it is forgotten: its end has to be counted.
        """
        job = self._jobs.get(key)
        owner = None if job is None else job.metadata.uid
        return tuple(pod for pod in self._pods.get(key, {}).values() if pod.owner == owner)

    def pod(self, key: Key, uid: str) -> Pod | None:
        """Return a pod of a job by its UID, if it is there."""
        return next((pod for pod in self.pods(key) if pod.uid == uid and not pod.gone), None)

    async def appear(self, key: Key, uid: str, seconds: float) -> Pod | None:
        """Return a pod of a job by its UID, once it is seen; None if it is not within this time."""
        if (pod := self.pod(key, uid)) is not None:
            return pod
        seen = self._awaited.setdefault(uid, asyncio.Event())
        with suppress(TimeoutError):
            await asyncio.wait_for(seen.wait(), seconds)
        self._awaited.pop(uid, None)
        return self.pod(key, uid)

    def is_news(self, manifest: Mapping[str, Any]) -> bool:
        """Tell whether a job or a pod is not as it is known: of our own writes, the watch tells once more."""
        metadata = manifest["metadata"]
        version = _version(metadata)
        job = self._jobs.get(Key(metadata.get("namespace") or "default", metadata["name"]))
        if job is not None and job.metadata.uid == metadata.get("uid"):
            return version != _number(job.metadata.resource_version)
        return version == 0 or version != self._versions.get(metadata.get("uid", ""))

    def see_job(self, manifest: Mapping[str, Any], *, gone: bool = False) -> Key:
        """Take in how a job is now."""
        metadata = manifest["metadata"]
        key = Key(metadata.get("namespace") or "default", metadata["name"])
        known = self._jobs.get(key)
        if gone or "deletionTimestamp" in metadata:
            # That an earlier one of the same name is gone may be heard of after its successor has come.
            if known is None or known.metadata.uid == metadata.get("uid"):
                self.lose_job(key)
            return key
        if metadata.get("uid") in self._past:
            return key
        if known is not None and _version(metadata) < _number(known.metadata.resource_version):
            return key  # the answer to a question may come after newer news
        job = _read(manifest, key)
        if job is None:
            self.unreadable.add(key)
        else:
            self._jobs[key] = job
            self.unreadable.discard(key)
        return key

    def lose_job(self, key: Key) -> None:
        """Take in that a job is gone, which a watch may not have told."""
        job = self._jobs.pop(key, None)
        self.unreadable.discard(key)
        if job is not None and job.metadata.uid:
            self._past[job.metadata.uid] = None
            if len(self._past) > _MOST_PAST:
                del self._past[next(iter(self._past))]

    def see_pod(self, manifest: Mapping[str, Any], *, gone: bool = False) -> Key | None:
        """Take in how a pod is now; return the job it belongs to."""
        try:
            metadata, pod = manifest["metadata"], pod_from(manifest)
            job = metadata.get("labels", {}).get(names.JOB_LABEL)
        except _UNREADABLE as error:
            _warn(f"a pod cannot be read: {_name_of(manifest)}", error)
            return None
        if job is None or pod is None:
            return None
        key = Key(metadata.get("namespace") or "default", job)
        pods = self._pods.setdefault(key, {})
        version = _version(metadata)
        known = pods.get(pod.name)
        if known is not None and known.uid == pod.uid and (known.gone or version < self._versions.get(pod.uid, 0)):
            return key
        pods[pod.name] = _without_life(pod) if gone else pod
        self._versions[pod.uid] = version
        if not gone and pod.uid in self._awaited:
            self._awaited[pod.uid].set()
        return key

    def lose(self, scope: Scope, listed: Collection[str], version: str) -> set[Key]:
        """Take in that of all that a list covers, what is older than it and not in it is gone; return whose it was."""
        limit = _number(version)
        if scope.kind == "Pod":
            return self._lose_pods(scope, listed, limit)
        lost = {
            key
            for key, job in self._jobs.items()
            if scope.covers(key) and job.metadata.uid not in listed and _number(job.metadata.resource_version) < limit
        }
        for key in lost:
            self.lose_job(key)
        return lost

    def _lose_pods(self, scope: Scope, listed: Collection[str], limit: int) -> set[Key]:
        lost = set()
        for key, pods in self._pods.items():
            for pod in list(pods.values()) if scope.covers(key) else ():
                if not pod.gone and pod.uid not in listed and self._versions.get(pod.uid, 0) < limit:
                    pods[pod.name] = _without_life(pod)
                    lost.add(key)
        return lost

    def forget(self, key: Key, uids: Iterable[str] = ()) -> None:
        """Forget pods that are gone; those of an earlier job of that name matter to nobody any more."""
        pods, gone = self._pods.get(key, {}), set(uids)
        own = {pod.uid for pod in self.pods(key)}
        for pod in [each for each in pods.values() if each.uid in gone or (each.gone and each.uid not in own)]:
            del pods[pod.name]
            self._versions.pop(pod.uid, None)
        if not pods:
            self._pods.pop(key, None)


def _read(manifest: Mapping[str, Any], key: Key) -> OmniLearnJob | None:
    try:
        return OmniLearnJob.from_manifest(manifest)
    except _UNREADABLE as error:
        # The API server has let it pass, so it was written by another version than this operator.
        _warn(f"{key} cannot be read (is the CRD of this version there?)", error)
    try:
        return OmniLearnJob.from_manifest({name: part for name, part in manifest.items() if name != "status"})
    except _UNREADABLE:
        return None


def _warn(what: str, error: Exception) -> None:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        logger.warning("%s: %s: %s", what, first["loc"], first["msg"])
    else:
        logger.warning("%s: %s: %s", what, type(error).__name__, str(error)[:200])


def _name_of(manifest: Mapping[str, Any]) -> str:
    metadata = manifest.get("metadata")
    return f"{metadata.get('namespace')}/{metadata.get('name')}" if isinstance(metadata, Mapping) else "without a name"


def _version(metadata: Mapping[str, Any]) -> int:
    return _number(metadata.get("resourceVersion"))


def _number(version: object) -> int:
    text = str(version)
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else 0


def _without_life(pod: Pod) -> Pod:
    return replace(pod, leaving=True, running=False, alive=False, gone=True)
