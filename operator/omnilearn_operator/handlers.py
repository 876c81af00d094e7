"""kopf's part: the watch. Every event of a job or of a pod is noted, and the job looked at; nothing else is done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any

import kopf

from omnilearn_core.api import names

from .loop import Loop
from .registry import Registry


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
    """Watch jobs and pods until this is cancelled."""
    existing = asyncio.all_tasks()
    tasks = await kopf.spawn_tasks(
        registry=handlers_of(registry, loop),
        settings=watch_settings(),
        namespaces=namespaces,
        clusterwide=not namespaces,
        standalone=True,
    )
    take_signals()  # kopf has just taken them, and would not give them back
    await kopf.run_tasks(tasks, ignored=existing)


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
    settings.networking.error_backoffs = [0.5, 1, 2, 5]
    settings.queueing.error_delays = [1, 2, 5, 10, 30, 60]
    settings.persistence.finalizer = f"{names.GROUP}/finalizer"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=names.GROUP)
    settings.persistence.diffbase_storage = _NoDifferences()
    settings.queueing.idle_timeout = 1.0  # of the task that each object has while something happens to it
    return settings
