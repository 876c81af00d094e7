"""Jobs and pods as they were last seen. Filled by the watch; read by everybody else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from pydantic import ValidationError

from omnilearn_core.api import names
from omnilearn_core.api.job import OmniLearnJob

from .observed import Pod, pod_from

logger = logging.getLogger(__name__)


class Key(NamedTuple):
    """Which job."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Registry:
    """What there is."""

    def __init__(self) -> None:
        self._jobs: dict[Key, OmniLearnJob] = {}
        self._pods: dict[Key, dict[str, Pod]] = {}
        self._awaited: dict[str, asyncio.Event] = {}

    @property
    def jobs(self) -> Mapping[Key, OmniLearnJob]:
        """All jobs."""
        return self._jobs

    def pods(self, key: Key) -> tuple[Pod, ...]:
        """Return the pods of a job that belong to it: those of an earlier job of that name do not."""
        job = self._jobs.get(key)
        owner = None if job is None else job.metadata.uid
        return tuple(pod for pod in self._pods.get(key, {}).values() if pod.owner == owner)

    def pod(self, key: Key, uid: str) -> Pod | None:
        """Return a pod of a job by its UID."""
        return next((pod for pod in self.pods(key) if pod.uid == uid), None)

    async def appear(self, key: Key, uid: str, seconds: float) -> Pod | None:
        """Return a pod of a job by its UID, once it is seen; None if it is not within this time."""
        if (pod := self.pod(key, uid)) is not None:
            return pod
        seen = self._awaited.setdefault(uid, asyncio.Event())
        with suppress(TimeoutError):
            await asyncio.wait_for(seen.wait(), seconds)
        self._awaited.pop(uid, None)
        return self.pod(key, uid)

    def see_job(self, manifest: Mapping[str, Any], *, gone: bool) -> Key:
        """Take in how a job is now."""
        metadata = manifest["metadata"]
        key = Key(metadata.get("namespace") or "default", metadata["name"])
        if gone or "deletionTimestamp" in metadata:
            self._jobs.pop(key, None)
            return key
        try:
            self._jobs[key] = OmniLearnJob.from_manifest(manifest)
        except ValidationError as error:
            # The API server has let it pass, so its CRD is of another version than this operator.
            logger.error("%s cannot be read (is the CRD of this version installed?): %s", key, error.errors()[0]["msg"])  # noqa: TRY400
        return key

    def see_pod(self, manifest: Mapping[str, Any], *, gone: bool = False) -> Key | None:
        """Take in how a pod is now; return the job it belongs to."""
        metadata = manifest["metadata"]
        job = metadata.get("labels", {}).get(names.JOB_LABEL)
        pod = pod_from(manifest)
        if job is None or pod is None:
            return None
        key = Key(metadata.get("namespace") or "default", job)
        pods = self._pods.setdefault(key, {})
        if gone:
            pods.pop(pod.name, None)
        else:
            pods[pod.name] = pod
            if pod.uid in self._awaited:
                self._awaited[pod.uid].set()
        if not pods:
            del self._pods[key]
        return key
