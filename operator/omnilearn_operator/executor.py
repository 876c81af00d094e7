"""Does what was decided about a job, through the API. What goes wrong is written into the book for the next look."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from omnilearn_core.api import names
from omnilearn_core.api.job import OmniLearnJob

from .api import Api, ApiError, Manifest
from .book import Book, Check
from .manifests.network import network_policy_of, service_of
from .manifests.place import Place
from .manifests.pods import pod_of, template_hash
from .reconcile import Annotate, Decision
from .recorder import Recorder
from .registry import Key, Registry
from .status import patch_of
from .workforce import Create, Delete

logger = logging.getLogger(__name__)

_MOST_AT_ONCE = 16
_REFUSED_SECONDS = 10.0


class Executor:
    """Performs decisions."""

    def __init__(self, api: Api, registry: Registry, recorder: Recorder, place_of: Callable[[str], Place]) -> None:
        self._api, self._registry, self._recorder, self._place_of = api, registry, recorder, place_of
        self._places = asyncio.Semaphore(_MOST_AT_ONCE)

    async def perform(self, key: Key, job: OmniLearnJob, decision: Decision, now: datetime) -> Book:
        """Do everything that a decision says; return the book as it is afterwards.

        Raises ApiError if the API server cannot be reached or breaks: the next look decides anew.
        """
        book = decision.book
        if decision.status is not None:
            await self._write_status(key, decision)
            book = replace(book, status=decision.status, written=now)
        for note in decision.tell:
            logger.info("%s: %s: %s", key, note.reason, note.message)
            await self._recorder.record(job, note)
        for create in decision.check:
            book = await self._check(key, job, create, book, now)
        if decision.apply:
            for manifest in (service_of(job), network_policy_of(job)):
                await self._api.apply(manifest)
            book = replace(book, applied=job.metadata.generation or 0)
        for found in await asyncio.gather(*(self._create(key, job, each, now) for each in decision.create)):
            book = replace(book, checks={**book.checks, **found})
        await asyncio.gather(*(self._delete(key, each) for each in decision.delete))
        await asyncio.gather(*(self._annotate(key, each) for each in decision.annotate))
        return book

    async def _write_status(self, key: Key, decision: Decision) -> None:
        if decision.status is None:
            return
        body = {"status": patch_of(decision.book.status, decision.status)}
        try:
            await self._api.patch(names.KIND, key.namespace, key.name, body, status=True)
        except ApiError as error:
            if not error.missing:  # it has just been deleted
                raise

    async def _check(self, key: Key, job: OmniLearnJob, create: Create, book: Book, now: datetime) -> Book:
        """Have the API server look at a pod that is not created; note what it says."""
        try:
            await self._api.create(self._pod(key, job, create), dry_run=True)
        except ApiError as error:
            check = _check_of(error, now)
            if check is None:
                raise
        else:
            check = Check()
        return replace(book, checks={**book.checks, template_hash(create.worker.group): check})

    async def _create(self, key: Key, job: OmniLearnJob, create: Create, now: datetime) -> dict[str, Check]:
        """Create a pod; return what was learned about its template, if it was not taken."""
        async with self._places:
            try:
                made = await self._api.create(self._pod(key, job, create))
            except ApiError as error:
                if error.conflict:  # it is there already, and the watch will tell
                    return {}
                check = _check_of(error, now)
                if check is None:
                    raise
                return {template_hash(create.worker.group): check}
        self._registry.see_pod(made)
        return {}

    def _pod(self, key: Key, job: OmniLearnJob, create: Create) -> Manifest:
        return pod_of(job, create.worker, create.attempt, self._place_of(key.namespace))

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
        async with self._places:
            try:
                body: Manifest = {"metadata": {"annotations": annotations, "uid": wanted.pod.uid}}
                self._registry.see_pod(await self._api.patch("Pod", key.namespace, wanted.pod.name, body))
            except ApiError as error:
                if not error.missing and not error.conflict:
                    raise


def _check_of(error: ApiError, now: datetime) -> Check | None:
    """Return what an answer says of a template; None if it says nothing."""
    if error.invalid:
        return Check(invalid=error.sentence)
    if error.refused:
        return Check(refused=error.sentence, again=now + timedelta(seconds=_REFUSED_SECONDS))
    return None
