"""kopf's part: the watch. Every event of a job or of a pod is noted, and the job looked at; nothing else is done."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

import kopf

from omnilearn_core.api import names
from omnilearn_core.endings import back_off

from .loop import Loop
from .registry import Registry

logger = logging.getLogger(__name__)

_FIRST_PAUSE, _LONGEST_CALL_PAUSE, _LONGEST_PAUSE = 0.5, 5.0, 30.0
# A watch that has lasted so long was a good one.
_GOOD_SECONDS = 60.0
_END_SECONDS = 10.0


class _NoDifferences(kopf.DiffBaseStorage):
    """Keeps kopf from comparing objects with what they were: nobody asks for it, and it would copy each of them."""

    def build(self, **_: Any) -> Any:
        """Return nothing to compare."""
        return {}

    def fetch(self, **_: Any) -> Any:
        """Return nothing."""
        return None

    def store(self, **_: Any) -> None:
        """Keep nothing."""


async def watch(registry: Registry, loop: Loop, namespaces: Collection[str], take_signals: Callable[[], None]) -> None:
    """Watch jobs and pods until this is cancelled; what ends kopf, such as an unexpected 410, only begins it anew."""
    failures = 0
    while True:
        began = time.monotonic()
        try:
            return await _watch(registry, loop, namespaces, take_signals)
        except Exception as error:  # noqa: BLE001 - kopf tells of it itself, and its errors have nothing in common
            failures = 1 if time.monotonic() - began > _GOOD_SECONDS else failures + 1
            pause = back_off(failures, _FIRST_PAUSE, _LONGEST_PAUSE)
            logger.warning("the watch has failed and begins anew in %g s: %r", pause, error)
        loop.lists.soon()
        await asyncio.sleep(pause)
        loop.lists.soon()  # its first list does not tell of what has gone meanwhile


async def _watch(registry: Registry, loop: Loop, namespaces: Collection[str], take_signals: Callable[[], None]) -> None:
    tasks = await kopf.spawn_tasks(
        registry=handlers_of(registry, loop),
        settings=watch_settings(),
        namespaces=namespaces,
        clusterwide=not namespaces,
        standalone=True,
    )
    take_signals()  # kopf has just taken them, and would not give them back
    # Not by kopf.run_tasks: it would cancel every task that has begun since, and workers' connections among them.
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.wait(tasks, timeout=_END_SECONDS)
    for each in done:
        each.result()


def handlers_of(registry: Registry, loop: Loop) -> kopf.OperatorRegistry:
    """Return the handlers of an operator."""
    known = kopf.OperatorRegistry()

    @kopf.on.login(registry=known)
    async def log_in(**known_by_kopf: Any) -> kopf.ConnectionInfo | None:
        # Whatever client is installed, kopf need not load it for this.
        in_cluster = kopf.login_with_service_account(**known_by_kopf)
        return in_cluster or kopf.login_with_kubeconfig(**known_by_kopf)

    @kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=known)
    async def see_job(event: kopf.RawEvent, **_: Any) -> None:
        gone = event["type"] == "DELETED"
        if gone or registry.is_news(event["object"]):
            loop.touch(registry.see_job(event["object"], gone=gone))

    @kopf.on.event("", "v1", "pods", labels={names.MANAGED_LABEL: "true"}, registry=known)
    async def see_pod(event: kopf.RawEvent, **_: Any) -> None:
        gone = event["type"] == "DELETED"
        if gone or registry.is_news(event["object"]):
            key = registry.see_pod(event["object"], gone=gone)
            if key is not None:
                loop.touch(key)

    return known


class Endlessly:
    """The pauses after a list or a watch that has failed: there is always another, because kopf ends with the last."""

    def __iter__(self) -> Iterator[float]:
        return (back_off(times, _FIRST_PAUSE, _LONGEST_CALL_PAUSE) for times in itertools.count(1))


def watch_settings() -> kopf.OperatorSettings:
    """Return how kopf watches: only our pods, no finalizers, no events of its own, no peering."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.peering.standalone = True
    # It would kill this process so long after it has ended, also if the process leads no more but lives on.
    settings.process.ultimate_exiting_timeout = None
    settings.scanning.disabled = True
    settings.watching.label_selectors["pods"] = f"{names.MANAGED_LABEL}=true"
    settings.watching.chunk_size = 500
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 5
    settings.networking.error_backoffs = Endlessly()
    settings.queueing.error_delays = [1, 2, 5, 10, 30, 60]
    settings.persistence.finalizer = f"{names.GROUP}/finalizer"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=names.GROUP)
    settings.persistence.diffbase_storage = _NoDifferences()
    settings.queueing.idle_timeout = 1.0  # of the task that each object has while something happens to it
    return settings
