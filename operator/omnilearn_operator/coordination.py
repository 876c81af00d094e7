"""One coordinator for each job that runs, behind one server: workers find theirs by namespace and name."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from aiohttp import web

from omnilearn_coordinator.credentials import Identity
from omnilearn_coordinator.crowd import Crowd
from omnilearn_coordinator.membership.actions import Happening
from omnilearn_coordinator.refusals import Refusal, Refusals, RefusedRequest, refuse
from omnilearn_coordinator.service import Coordinator
from omnilearn_coordinator.settings import JobSettings, settings_of
from omnilearn_coordinator.view import JobView
from omnilearn_core.api import names
from omnilearn_core.api.job import OmniLearnJob

from .credentials import PodCredentials, Reviews
from .logs import on_behalf_of
from .pace import return_seconds
from .registry import Key, Registry
from .reign import Reign

_ROUTE = names.namespace_path("{namespace}") + names.worker_path("{job}", "{worker}")


class Coordinators:
    """The coordinators of all jobs, for one reign."""

    def __init__(
        self, registry: Registry, reviews: Reviews, tell: Callable[[Key, Happening], None], reign: Reign
    ) -> None:
        self._registry, self._reviews, self._tell, self._reign = registry, reviews, tell, reign
        self._running: dict[Key, tuple[str, JobSettings, Coordinator]] = {}
        self.refusals = Refusals("no job of ours")
        """What was refused before anybody knew for which job it was meant."""
        self._past_reports = 0
        self._crowd = Crowd()

    def expect_everybody(self) -> None:
        """Take in that the workers of all pods that there are may come back now: this reign has just begun."""
        pods = self._registry.pod_count
        self._crowd.expect(pods, return_seconds(pods), time.monotonic())

    @property
    def connected(self) -> int:
        """How many workers are connected."""
        return self._crowd.size

    @property
    def members(self) -> int:
        """How many workers train."""
        return sum(coordinator.members for _, _, coordinator in self._running.values())

    @property
    def reports(self) -> int:
        """How many reports were taken in."""
        return self._past_reports + sum(coordinator.reports for _, _, coordinator in self._running.values())

    def app(self) -> web.Application:
        """Return the application that workers connect to."""
        app = web.Application()
        app.router.add_get(_ROUTE, self._serve)
        return app

    async def ensure(self, key: Key, job: OmniLearnJob) -> None:
        """See to it that a job has a coordinator, and that it knows the job as it is now.

        A changed job gets a new one, which adopts what runs: training does not notice.
        """
        settings, uid = settings_of(job), job.metadata.uid or ""
        running = self._running.get(key)
        if running is not None and running[:2] == (uid, settings):
            return
        await self.stop(key)
        coordinator = Coordinator(
            settings,
            PodCredentials(key, self._reviews, self._registry),
            term=self._reign.next_term(),
            may_speak=self._reign.holds,
            on_happening=lambda happening: self._tell(key, happening),
        )
        coordinator.among(self._crowd)
        coordinator.remember(None if job.status is None else job.status.strategy)
        coordinator.begin()
        self._running[key] = uid, settings, coordinator

    def check_identities(self, key: Key) -> None:
        """Hang up on those whose pod is gone, and let those leave whose pod is about to go.

        A worker may speak only while it is a pod of its job. Of its end, the cluster often knows before it does. Of
        those whose node is not ready, whoever is silent is not waited for.
        """
        running = self._running.get(key)
        if running is not None:
            there = {Identity(pod.worker, pod.attempt): pod for pod in self._registry.pods(key) if not pod.gone}
            running[2].drop_others(there)
            running[2].retire([who for who, pod in there.items() if pod.over and pod.running], "its pod has to go")
            running[2].doubt([who for who, pod in there.items() if pod.unheard], "its node is not ready")

    async def stop(self, key: Key) -> None:
        """Stop the coordinator of a job, if it has one."""
        running = self._running.pop(key, None)
        if running is not None:
            self._past_reports += running[2].reports
            await running[2].stop()

    async def stop_all(self) -> None:
        """Stop all coordinators."""
        for key in list(self._running):
            await self.stop(key)

    def view(self, key: Key) -> JobView | None:
        """Return how the coordinator of a job sees it."""
        running = self._running.get(key)
        return None if running is None else running[2].snapshot()

    def views(self) -> Iterator[tuple[Key, JobView]]:
        """Return the views of all coordinators."""
        for key, (_, _, coordinator) in list(self._running.items()):
            yield key, coordinator.snapshot()

    async def _serve(self, request: web.Request) -> web.WebSocketResponse:
        key = Key(request.match_info["namespace"], request.match_info["job"])
        running = self._running.get(key)
        if running is not None:
            on_behalf_of(key)
            return await running[2].serve_worker(request)
        error = self._without(key)
        self.refusals.count(error.kind, error.sentence)
        raise error

    def _without(self, key: Key) -> RefusedRequest:
        if key in self._registry.jobs or key in self._registry.unreadable:
            return refuse(503, f"{key} has no coordinator yet: come again", Refusal.UNABLE)
        return refuse(404, f"there is no job {str(key)[:127]} that needs workers", Refusal.JOB)
