"""Kubernetes events of jobs: the same one again is counted, and too many of a kind are held back.

What happens while the API server is away, or has just come back and knows nobody's rights yet, is told later.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from omnilearn_coordinator.limits import Allowance
from omnilearn_core.api import names
from omnilearn_core.api.job import OmniLearnJob

from .api import Api, ApiError
from .notes import Note

logger = logging.getLogger(__name__)

# So many events of a job and a reason at once, then one in so many seconds
_BURST, _SECONDS_EACH = 40.0, 5.0
_MOST_KNOWN = 5_000
# What happens to a job is told in its order, by one of so many writers.
_WRITERS, _LONGEST_QUEUE = 8, 1000
# For so long an event is kept that cannot be written; one that is refused, for as long as a new API server may need to
# read who may do what.
_KEPT_SECONDS, _REFUSED_SECONDS = 600.0, 10.0
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 10.0


class _Waiting(NamedTuple):
    """An event that waits to be written."""

    job: OmniLearnJob
    note: Note
    at: str
    """When it happened."""

    since: float
    """The same by this process's clock."""


@dataclass(slots=True)
class _Told:
    """What was told of one job."""

    counts: dict[str, int] = field(default_factory=dict)
    """How often, by the event's name."""

    allowances: dict[str, Allowance] = field(default_factory=dict)
    """How much more may be told, by reason."""


class Recorder:
    """Writes events, those of a job one after the other, beside all else; one that never can be is only logged."""

    def __init__(
        self,
        api: Api,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api, self._clock, self._sleep = api, clock, sleep
        self._told: dict[str, _Told] = {}
        self._waiting = [asyncio.Queue[_Waiting](_LONGEST_QUEUE) for _ in range(_WRITERS)]
        self.dropped = 0
        """Events that were not written because too many were waiting."""

    @property
    def waiting(self) -> int:
        """How many events wait to be written."""
        return sum(queue.qsize() for queue in self._waiting)

    def record(self, job: OmniLearnJob, note: Note) -> None:
        """Have an event of a job written; every reason has an allowance of its own.

        Shares move often in a job to which much happens. That must not hide what has happened to it.
        """
        allowances, now = self._of(job).allowances, self._clock()
        allowance = allowances.setdefault(str(note.reason), Allowance(_BURST, 1.0 / _SECONDS_EACH, now))
        if not allowance.take(now):
            return
        queue = self._waiting[hash(job.metadata.uid or "") % _WRITERS]
        if queue.full():
            self.dropped += 1
        else:
            queue.put_nowait(_Waiting(job, note, _now(), now))

    def forget(self, uid: str) -> None:
        """Forget what was told of a job that is gone."""
        self._told.pop(uid, None)

    def _of(self, job: OmniLearnJob) -> _Told:
        if len(self._told) > _MOST_KNOWN:
            self._told.clear()
        return self._told.setdefault(job.metadata.uid or "", _Told())

    async def run(self) -> None:
        """Write events for ever."""
        async with asyncio.TaskGroup() as writers:
            for queue in self._waiting:
                writers.create_task(self._write_from(queue))

    async def _write_from(self, queue: asyncio.Queue[_Waiting]) -> None:
        while True:
            waiting = await queue.get()
            await self.write(*waiting)
            queue.task_done()

    async def written(self) -> None:
        """Wait until all is written."""
        for queue in self._waiting:
            await queue.join()

    async def write(self, job: OmniLearnJob, note: Note, at: str, since: float) -> None:
        """Write an event of that time; wait if it may be taken in a moment."""
        # A late word of a job that is gone is not remembered.
        name, counts = event_name(job, note), self._told.get(job.metadata.uid or "", _Told()).counts
        counts[name] = counts.get(name, 0) + 1
        tries, refused_since = 0, float("inf")
        while True:
            try:
                return await self._write(job, note, name, counts, at)
            except ApiError as error:
                tries, now = tries + 1, self._clock()
                refused_since = min(refused_since, now) if error.refused else float("inf")
                pause = pause_before_next(error, tries, now - since, now - refused_since)
                if pause is None:
                    logger.warning("%s: an event was not written: %s", job.metadata.name, error.sentence)
                    return None
            await self._sleep(pause)

    async def _write(self, job: OmniLearnJob, note: Note, name: str, counts: dict[str, int], at: str) -> None:
        count = counts[name]
        if count > 1:
            again = {"count": count, "lastTimestamp": at}
            try:
                await self._api.patch("Event", job.metadata.namespace or "default", name, again)
            except ApiError as error:
                if not error.missing:  # the API server forgets events after an hour
                    raise
            else:
                return
        try:
            await self._api.create(event_of(job, note, name, count, at))
        except ApiError as error:
            if not error.conflict:
                raise
            await self._count_on(job, name, at, counts)

    async def _count_on(self, job: OmniLearnJob, name: str, at: str, counts: dict[str, int]) -> None:
        """Count on from where an operator before this one has stopped: what it has told has happened again."""
        namespace = job.metadata.namespace or "default"
        found = (await self._api.every("Event", namespace, fields=f"metadata.name={name}")).get("items", [])
        told = [each for each in found if each.get("metadata", {}).get("name") == name]
        if any(each.get("firstTimestamp") == at for each in told):
            return  # it was written by this operator, and only the answer was lost
        counts[name] += max((int(each.get("count", 1)) for each in told), default=0)
        await self._api.patch("Event", namespace, name, {"count": counts[name], "lastTimestamp": at})


def pause_before_next(error: ApiError, tries: int, age: float, refused: float) -> float | None:
    """Return how long to wait after so many tries; None if that is no use for one so old, and refused for so long."""
    if error.passing and age < _KEPT_SECONDS:
        return max(min(_FIRST_PAUSE * 2.0 ** (tries - 1), _LONGEST_PAUSE), error.retry_after)
    return _FIRST_PAUSE if error.refused and not error.of_the_past and refused < _REFUSED_SECONDS else None


def event_name(job: OmniLearnJob, note: Note) -> str:
    """Return the name of an event: the same for the same news of the same job."""
    text = f"{job.metadata.uid}/{note.reason}/{note.message}"
    return f"{job.metadata.name}.{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"


def event_of(job: OmniLearnJob, note: Note, name: str, count: int, now: str) -> dict[str, Any]:
    """Return the event as a manifest."""
    namespace = job.metadata.namespace or "default"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "name": job.metadata.name,
            "namespace": namespace,
            "uid": job.metadata.uid,
        },
        "type": note.kind,
        "reason": str(note.reason),
        "message": note.message,
        "count": count,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "source": {"component": "omnilearn-operator"},
        "reportingComponent": "omnilearn.dev/operator",
        "reportingInstance": "omnilearn-operator",
    }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
