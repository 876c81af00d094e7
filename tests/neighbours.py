"""Two jobs behind one server, as the operator has them: one is calm, and must not notice what the noisy one does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import ClientSession

from coordination import Talker
from omnilearn_coordinator.membership.actions import Happening
from omnilearn_coordinator.reception import Reception
from omnilearn_core.api import names
from omnilearn_core.api.job import OmniLearnJob
from omnilearn_core.api.messages import Reply
from omnilearn_operator.api import Manifest
from omnilearn_operator.coordination import Coordinators
from omnilearn_operator.credentials import Reviews
from omnilearn_operator.registry import Key, Registry
from omnilearn_operator.reign import Reign
from operations import MemoryApi, job_of

CALM, NOISY = Key("team", "calm"), Key("team", "noisy")
_LIMIT_SECONDS = 10.0
_WORKERS = 2


def job_named(name: str, **spec: Any) -> OmniLearnJob:
    manifest = job_of(_WORKERS, **spec).to_manifest()
    manifest["metadata"] |= {"name": name, "uid": f"{name}-uid"}
    return OmniLearnJob.from_manifest(manifest)


def pod_of(job: str, index: int, attempt: int = 0, **metadata: Any) -> Manifest:
    worker = f"{job}-a-{index}"
    labels = {names.JOB_LABEL: job, names.WORKER_LABEL: worker, names.ATTEMPT_LABEL: str(attempt)}
    owner = {"uid": f"{job}-uid", "controller": True}
    made = {"name": f"{worker}-{attempt}", "namespace": "team", "uid": f"{worker}-{attempt}-uid", "labels": labels}
    return {"metadata": made | {"ownerReferences": [owner]} | metadata}


def review(pod: str, uid: str, namespace: str = "team", audience: str = names.TOKEN_AUDIENCE) -> Manifest:
    extra = {"authentication.kubernetes.io/pod-name": [pod], "authentication.kubernetes.io/pod-uid": [uid]}
    user = {"username": f"system:serviceaccount:{namespace}:default", "extra": extra}
    return {"status": {"authenticated": True, "audiences": [audience], "user": user}}


ANSWERS: dict[str, Manifest] = {
    f"{job}-a-{index}": review(f"{job}-a-{index}-0", f"{job}-a-{index}-0-uid")
    for job in (CALM.name, NOISY.name)
    for index in range(_WORKERS)
} | {
    "elsewhere": review("noisy-a-0-0", "noisy-a-0-0-uid", namespace="other"),
    "audience": review("noisy-a-0-0", "noisy-a-0-0-uid", audience="https://kubernetes.default.svc"),
    "expired": {"status": {"authenticated": False, "error": "token has expired"}},
    "gone": review("noisy-a-7-0", "noisy-a-7-0-uid"),
    "earlier": review("noisy-a-0-0", "an-earlier-uid"),
    "person": {"status": {"authenticated": True, "audiences": [names.TOKEN_AUDIENCE], "user": {"username": "ada"}}},
    "second attempt": review("noisy-a-0-1", "noisy-a-0-1-uid"),
}
"""What the API server says of a token; of all others, that it does not know them."""


class Reviewer(MemoryApi):
    """Answers questions about tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def create(self, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        self.asked.append(manifest["spec"]["token"])
        return ANSWERS.get(self.asked[-1], {"status": {"authenticated": False}})


class Neighbours:
    """The operator's side of two jobs, and clients of it."""

    def __init__(self, session: ClientSession) -> None:
        self.session, self.api, self.registry = session, Reviewer(), Registry()
        self.reviews = Reviews(self.api)
        self.told: list[tuple[Key, Happening]] = []
        self.coordinators = Coordinators(self.registry, self.reviews, self._tell, Reign(1, lambda: True))
        self.reception = Reception(self.coordinators.app(), self.coordinators.refusals.count)
        self.port = 0
        self.calm: list[Talker] = []

    def _tell(self, key: Key, happening: Happening) -> None:
        self.told.append((key, happening))

    async def start(self) -> None:
        self.port = await self.reception.start("127.0.0.1", 0)
        for key in (CALM, NOISY):
            self.registry.see_job(job_named(key.name).to_manifest())
            for index in range(_WORKERS):
                self.registry.see_pod(pod_of(key.name, index))
        self.registry.see_pod(pod_of(NOISY.name, 7), gone=True)
        await self.renew(CALM)
        await self.renew(NOISY)
        self.calm = await self.training(CALM)

    async def stop(self) -> None:
        await self.coordinators.stop_all()
        await self.reception.close()

    async def renew(self, key: Key) -> None:
        """Give a job a new coordinator, that knows nothing of what was said before."""
        await self.coordinators.stop(key)
        await self.coordinators.ensure(key, self.registry.jobs[key])

    async def worker(self, key: Key, index: int = 0, bearer: str = "") -> Talker:
        name = f"{key.name}-a-{index}"
        url = f"http://127.0.0.1:{self.port}{names.namespace_path(key.namespace)}{names.worker_path(key.name, name)}"
        socket = await self.session.ws_connect(url, headers={"Authorization": f"Bearer {bearer or name}"})
        return Talker(name, socket)

    async def training(self, key: Key) -> list[Talker]:
        """Return the workers of a job, once they train together."""
        talkers = [await self.worker(key, index) for index in range(_WORKERS)]
        for talker in talkers:
            await talker.join()
        for talker in talkers:
            await talker.take_part()
        await self.until(lambda: self.standing(key)[0] == "Running")
        return talkers

    async def calm_replies(self, times: int = 1) -> None:
        """Have the calm job report, and be answered."""
        for _ in range(times):
            for talker in self.calm:
                assert talker.assignment is not None
                await talker.say(talker.report(talker.assignment.plan, compute_seconds=0.1))
                await talker.hear(Reply)

    def standing(self, key: Key) -> tuple[Any, ...]:
        """Return what nobody but the job itself may change."""
        view = self.coordinators.view(key)
        assert view is not None
        members = tuple((each.worker, each.share, each.state) for each in view.members)
        return view.phase, view.generation, view.plan, members, view.joiners, view.regroups, view.outcome

    def refused(self, kind: str = "") -> int:
        """Return how much was refused, of a kind or in all: of all jobs and of none."""
        counts = [
            dict(self.coordinators.refusals.counts),
            *(view.bad_requests for _, view in self.coordinators.views()),
        ]
        return sum(count for of in counts for name, count in of.items() if kind in ("", name))

    async def ask(self, request: bytes, address: str = "127.0.0.1") -> tuple[int, str]:
        """Send a request as it is; return the status and the sentence."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, local_addr=(address, 0))
        try:
            async with asyncio.timeout(_LIMIT_SECONDS):
                writer.write(request)
                answer = await reader.read()
        finally:
            writer.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(body)["sentence"]

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(_LIMIT_SECONDS):
            while not true():  # noqa: ASYNC110 - nobody tells tests of it
                await asyncio.sleep(0.005)


@asynccontextmanager
async def neighbours() -> AsyncIterator[Neighbours]:
    async with ClientSession() as session:
        made = Neighbours(session)
        await made.start()
        try:
            yield made
        finally:
            await made.stop()
            for talker in made.calm:
                await talker.socket.close()


def beside(scene: Callable[[Neighbours], Awaitable[None]]) -> None:
    """Run a scene beside the calm job, which must not notice."""

    async def play() -> None:
        async with neighbours() as made:
            before = made.standing(CALM)
            await scene(made)
            await made.calm_replies()
            assert made.standing(CALM) == before
            assert not any(talker.socket.closed for talker in made.calm)

    asyncio.run(play())
