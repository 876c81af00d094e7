"""Does what was decided about a job, through the API. What goes wrong is written into the book for the next look."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from omnilearn_core.api import names
from omnilearn_core.api.job import OmniLearnJob

from .api import Api, ApiError, Manifest
from .book import OBJECTS, Book, Check, Delay
from .delays import reason_in
from .manifests.gang import forbidden_sentence, missing_sentence, pod_group_of
from .manifests.network import network_policy_of, service_of
from .manifests.place import Place
from .manifests.pods import pod_of, template_hash
from .observed import Pod
from .ownership import objection
from .reconcile import Annotate, Decision
from .recorder import Recorder
from .registry import Key, Registry
from .status import patch_of
from .workforce import Create, Delete

logger = logging.getLogger(__name__)

_MOST_AT_ONCE = 32
_REFUSED_SECONDS, _INVALID_SECONDS = 10.0, 60.0

Done = tuple[Book, list[ApiError]]


class Executor:
    """Performs decisions."""

    def __init__(self, api: Api, registry: Registry, recorder: Recorder, place_of: Callable[[str], Place]) -> None:
        self._api, self._registry, self._recorder, self._place_of = api, registry, recorder, place_of
        self._places = asyncio.Semaphore(_MOST_AT_ONCE)

    async def perform(self, key: Key, job: OmniLearnJob, decision: Decision, now: datetime) -> Done:
        """Do everything that a decision says, whatever part of it fails.

        Returns the book as it is afterwards, and what went wrong for no reason that the job could know.
        """
        book, errors = decision.book, []
        if decision.status is not None:
            try:
                await self._write_status(key, job, decision)
                book = replace(book, status=decision.status, written=now, unsure=False)
            except ApiError as error:
                # It may be written all the same: the next one says everything.
                errors.append(error)
                book = replace(book, written=now, unsure=True)
        for note in decision.tell:
            logger.info("%s: %s: %s", key, note.reason, note.message)
            self._recorder.record(job, note)
        checks: dict[str, Check] = {}
        if decision.apply:
            checks[OBJECTS] = found = await self._own(job, now)
            book = replace(book, applied=job.metadata.generation or 0, applied_at=now) if found.good else book
        ready = checks.get(OBJECTS, Check()).good
        for create in decision.check if ready else ():
            checks |= await self._try(key, job, create, now, dry_run=True)
        # Who goes makes room: in this order, there are never more pods than the job may have. But what they have left
        # tells how the job has ended, until that is written.
        ends = book.unsure and decision.status is not None and decision.status.completion_time is not None
        stuck = await _all(self._delete(key, each) for each in decision.delete if not ends)
        errors += stuck
        ready = ready and not stuck
        for learned in await asyncio.gather(*(self._try(key, job, each, now) for each in decision.create if ready)):
            checks |= learned
        errors += await _all(self._annotate(key, each) for each in decision.annotate)
        delays = {pod.uid: await self._reason(key, pod, book.delays.get(pod.uid), now) for pod in decision.ask}
        errors += await _all([self._expire(key, job)] if decision.expire else [])
        known = {OBJECTS, *(template_hash(group) for group in job.spec.workers)}
        kept = {name: check for name, check in {**book.checks, **checks}.items() if name in known}
        return replace(book, checks=kept, delays={**book.delays, **delays}), errors

    async def _expire(self, key: Key, job: OmniLearnJob) -> None:
        logger.info("%s is deleted: it has ended, and ttlSecondsAfterFinished is over", key)
        await self._api.delete(names.KIND, key.namespace, key.name, job.metadata.uid or "")

    async def _reason(self, key: Key, pod: Pod, before: Delay | None, now: datetime) -> Delay:
        """Return what events say of a pod that its node does not start; nothing if they cannot be read."""
        times, why = (1, "") if before is None else (before.times + 1, "")
        try:
            found = await self._api.every("Event", key.namespace, fields=f"involvedObject.uid={pod.uid}")
            why = reason_in(found.get("items", []), pod.creating_since or now)
        except ApiError as error:
            logger.warning("%s: the events of %s cannot be read: %s", key, pod.name, error.sentence)
        return Delay(why, now, times)

    async def _write_status(self, key: Key, job: OmniLearnJob, decision: Decision) -> None:
        if decision.status is None:
            return
        before = None if decision.book.unsure else decision.book.status
        body: Manifest = {"status": patch_of(before, decision.status)}
        if job.metadata.resource_version:
            # Under this name there may be another job by now, which a status would be written to whatever its UID is.
            body["metadata"] = {"resourceVersion": job.metadata.resource_version}
        try:
            written = await self._api.patch(names.KIND, key.namespace, key.name, body, status=True)
            if job.metadata.resource_version:
                self._registry.see_job(written)
        except ApiError as error:
            if error.conflict:
                self._registry.see_job(await self._api.get(names.KIND, key.namespace, key.name))
            if not error.missing:  # it has just been deleted
                raise

    async def _own(self, job: OmniLearnJob, now: datetime) -> Check:
        """Make the job's other objects as they should be, unless somebody else has objects of that name."""
        group = pod_group_of(job)
        try:
            await asyncio.gather(*(self._make(each, job) for each in (service_of(job), network_policy_of(job))))
            if group is not None:
                await self._make_group(group, job)
        except ApiError as error:
            return _check_of(error, now)
        return Check()

    async def _make(self, manifest: Manifest, job: OmniLearnJob) -> None:
        kind, metadata = manifest["kind"], manifest["metadata"]
        try:
            await self._api.create(manifest)
        except ApiError as error:
            if not error.conflict:
                raise
            found = await self._api.get(kind, metadata["namespace"], metadata["name"], manifest["apiVersion"])
            if (whose := objection(found, job)) is not None:
                raise whose from None
            await self._api.apply(manifest)

    async def _make_group(self, group: Manifest, job: OmniLearnJob) -> None:
        try:
            await self._make(group, job)
        except ApiError as error:
            why = missing_sentence(job) if error.missing else forbidden_sentence(job) if error.refused else ""
            raise ApiError(error.status, error.reason, why or error.sentence, error.retry_after) from None

    async def _try(
        self, key: Key, job: OmniLearnJob, create: Create, now: datetime, *, dry_run: bool = False
    ) -> dict[str, Check]:
        """Create a pod, or have the API server look at one that is not created; return what it says of the template."""
        hash_ = template_hash(create.worker.group)
        try:
            place = self._place_of(key.namespace)
            pod = pod_of(job, create.worker, create.attempt, place, create.memory_bound)
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            why = f"the template of group {create.worker.group.name} is not that of a pod ({error!r})"
            return {hash_: Check(invalid=why)}
        async with self._places:
            try:
                made = await self._api.create(pod, dry_run=dry_run)
            except ApiError as error:
                if not error.conflict:
                    return {hash_: _check_of(error, now)}
                whose = await self._find(key, job, pod["metadata"]["name"])
                return {hash_: _check_of(whose, now)} if whose is not None else {hash_: Check()} if dry_run else {}
        if not dry_run:
            self._registry.see_pod(made)
        return {hash_: Check()}

    async def _find(self, key: Key, job: OmniLearnJob, name: str) -> ApiError | None:
        """Take in a pod that is there already: the answer to its creation was lost, and no watch has told of it yet.

        Returns what is to be said if it is not the job's.
        """
        try:
            found = await self._api.get("Pod", key.namespace, name)
        except ApiError as error:
            logger.info("%s: %s is not seen yet: %s", key, name, error.sentence)
            return None
        self._registry.see_pod(found)
        return objection(found, job)

    async def _delete(self, key: Key, delete: Delete) -> None:
        async with self._places:
            logger.info("%s: %s is deleted: %s", key, delete.name, delete.why)
            await self._api.delete("Pod", key.namespace, delete.name, delete.uid)

    async def _annotate(self, key: Key, wanted: Annotate) -> None:
        annotations = {names.AUTHORITIES_ANNOTATION: wanted.authorities} if wanted.authorities else {}
        if wanted.assigned is not None:
            annotations |= {
                names.SHARE_ANNOTATION: str(wanted.assigned.share),
                names.GENERATION_ANNOTATION: str(wanted.assigned.generation),
                names.PLAN_ANNOTATION: str(wanted.assigned.plan),
            }
        body: Manifest = {"metadata": {"annotations": annotations, "uid": wanted.pod.uid}}
        async with self._places:
            try:
                self._registry.see_pod(await self._api.patch("Pod", key.namespace, wanted.pod.name, body))
            except ApiError as error:
                # It is gone, or another one: the API server calls a changed UID invalid.
                if not error.missing and not error.conflict and not error.invalid:
                    raise


async def _all(doing: Iterable[Awaitable[None]]) -> list[ApiError]:
    """Do all of it; return what went wrong."""
    ends = await asyncio.gather(*doing, return_exceptions=True)
    for end in ends:
        if isinstance(end, BaseException) and not isinstance(end, ApiError):
            raise end
    return [end for end in ends if isinstance(end, ApiError)]


def _check_of(error: ApiError, now: datetime) -> Check:
    """Return what an answer says of a template: that it is bad (policies may change), or that it is not taken now."""
    if error.invalid:
        return Check(invalid=error.sentence, again=now + timedelta(seconds=_INVALID_SECONDS))
    seconds = (error.retry_after if error.conflict else 0.0) or _REFUSED_SECONDS
    return Check(refused=error.sentence, again=now + timedelta(seconds=seconds))
