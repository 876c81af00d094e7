"""The operator's loop against an API in memory: a job becomes pods, and what goes wrong is tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from omnilearn_coordinator.membership.actions import Happening
from omnilearn_operator.api import ApiError
from omnilearn_operator.coordination import Coordinators
from omnilearn_operator.credentials import Reviews
from omnilearn_operator.executor import Executor
from omnilearn_operator.lists import Lists
from omnilearn_operator.loop import Loop
from omnilearn_operator.manifests.place import Place
from omnilearn_operator.recorder import Recorder
from omnilearn_operator.registry import Key, Registry
from omnilearn_operator.reign import Fenced, Reign
from operations import MemoryApi, job_of

KEY = Key("team", "job")
_LIMIT = 20.0


class Bench:
    """An operator without a watch: tests say what is seen."""

    def __init__(self) -> None:
        self.has_the_lease = True
        self.api = MemoryApi()
        self.api.objects["OmniLearnJob", "job"] = job_of().to_manifest()
        self.registry = Registry()
        self.reign = Reign(1, lambda: self.has_the_lease)
        fenced = Fenced(self.api, self.reign)
        recorder = Recorder(fenced)
        self.coordinators = Coordinators(self.registry, Reviews(fenced), self._tell, self.reign)
        executor = Executor(fenced, self.registry, recorder, lambda _: Place("wss://here", "ca"))
        lists = Lists(fenced, self.registry, ())
        self.loop = Loop(lists, self.registry, self.coordinators, executor, recorder, lambda: "ca")

    def _tell(self, key: Key, happening: Happening) -> None:
        self.loop.tell(key, happening)

    def see(self, **spec: Any) -> None:
        self.loop.touch(self.registry.see_job(job_of(**spec).to_manifest(), gone=False))

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(_LIMIT):
            while not true():  # noqa: ASYNC110 - anything may make it true
                await asyncio.sleep(0.01)


def run(scene: Callable[[Bench], Coroutine[Any, Any, None]]) -> MemoryApi:
    async def play() -> MemoryApi:
        bench = Bench()
        looking = asyncio.create_task(bench.loop.run())
        try:
            await scene(bench)
        finally:
            looking.cancel()
            await bench.coordinators.stop_all()
        return bench.api

    return asyncio.run(play())


def test_a_job_becomes_pods_a_service_and_a_policy() -> None:
    async def scene(bench: Bench) -> None:
        bench.see()
        await bench.until(lambda: len(bench.api.did("create", "Pod")) == 2)

    api = run(scene)
    assert sorted(api.did("create", "Pod")) == ["job-a-0-0", "job-a-1-0"]
    assert (api.did("try", "Pod"), api.did("create", "Service"), api.did("create", "NetworkPolicy")) == (
        ["job-a-0-0"],
        ["job"],
        ["job"],
    )


def test_the_status_says_what_the_job_waits_for() -> None:
    async def scene(bench: Bench) -> None:
        bench.see()
        await bench.until(lambda: "status" in bench.api.objects["OmniLearnJob", "job"])

    status = run(scene).objects["OmniLearnJob", "job"]["status"]
    assert (status["phase"], status["workers"]["summary"]) == ("Pending", "0/2")


def test_a_bad_template_creates_nothing_and_ends_in_a_condition() -> None:
    async def scene(bench: Bench) -> None:
        bench.api.answers["try", "Pod"] = ApiError(422, "Invalid", 'spec.containers[0].image: Required value"')
        bench.see()
        job = bench.api.objects["OmniLearnJob", "job"]
        await bench.until(lambda: any("Required" in each["message"] for each in _conditions(job)))

    api = run(scene)
    assert api.did("create", "Pod") == []
    assert [each["reason"] for each in _conditions(api.objects["OmniLearnJob", "job"])][:1] == ["BadTemplate"]


def _conditions(job: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = job.get("status", {}).get("conditions", [])
    return found


def test_an_api_server_that_is_away_is_asked_again() -> None:
    async def scene(bench: Bench) -> None:
        bench.api.answers["try", "Pod"] = ApiError(0, "Unreachable", "the API server cannot be reached")
        bench.see()
        job = bench.api.objects["OmniLearnJob", "job"]
        await bench.until(lambda: any("cannot be reached" in each["message"] for each in _conditions(job)))
        del bench.api.answers["try", "Pod"]
        await bench.until(lambda: len(bench.api.did("create", "Pod")) == 2)

    run(scene)


def test_a_status_that_cannot_be_written_is_written_again_and_holds_up_nothing() -> None:
    async def scene(bench: Bench) -> None:
        bench.api.answers["status", "OmniLearnJob"] = ApiError(500, "InternalError", "etcd is away")
        bench.see()
        await bench.until(lambda: len(bench.api.did("create", "Pod")) == 2 and bench.loop.retries > 0)
        del bench.api.answers["status", "OmniLearnJob"]
        await bench.until(lambda: "status" in bench.api.objects["OmniLearnJob", "job"])

    run(scene)


def test_a_service_of_somebody_else_is_left_alone() -> None:
    async def scene(bench: Bench) -> None:
        bench.api.objects["Service", "job"] = {"metadata": {"name": "job"}, "spec": {"clusterIP": "10.0.0.1"}}
        bench.see()
        job = bench.api.objects["OmniLearnJob", "job"]
        await bench.until(lambda: any("rename the job" in each["message"] for each in _conditions(job)))

    assert run(scene).objects["Service", "job"]["spec"] == {"clusterIP": "10.0.0.1"}


@pytest.mark.parametrize(("status", "says"), [(404, "install Volcano"), (403, "gangSchedulers")])
def test_pods_are_not_created_before_the_group_that_they_are_of(status: int, says: str) -> None:
    async def scene(bench: Bench) -> None:
        bench.api.answers["create", "PodGroup"] = ApiError(status, "No", "no")
        bench.see(gangScheduler="volcano")
        job = bench.api.objects["OmniLearnJob", "job"]
        await bench.until(lambda: any(says in each["message"] for each in _conditions(job)))

    assert not run(scene).did("create", "Pod")


def test_a_template_that_is_no_pod_s_ends_in_a_condition() -> None:
    async def scene(bench: Bench) -> None:
        manifest = job_of().to_manifest()
        manifest["spec"]["workers"][0]["template"]["spec"]["terminationGracePeriodSeconds"] = "30"
        bench.loop.touch(bench.registry.see_job(manifest))
        job = bench.api.objects["OmniLearnJob", "job"]
        await bench.until(lambda: any(each["reason"] == "BadTemplate" for each in _conditions(job)))

    run(scene)


def test_one_job_that_is_in_trouble_does_not_hold_up_another(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(bench: Bench) -> None:
        other = job_of(1)
        manifest = other.to_manifest()
        manifest["metadata"] |= {"name": "other", "uid": "other-uid"}
        stuck = asyncio.Event()
        create = bench.api.create

        async def slow(manifest: dict[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
            if manifest["metadata"].get("name", "").startswith("job-"):
                await stuck.wait()
            return await create(manifest, dry_run=dry_run)

        monkeypatch.setattr(bench.api, "create", slow)
        bench.api.objects["OmniLearnJob", "other"] = manifest
        bench.see()
        bench.loop.touch(bench.registry.see_job(manifest, gone=False))
        await bench.until(lambda: bench.api.did("create", "Pod") == ["other-a-0-0"])
        stuck.set()

    run(scene)


def test_a_deleted_job_loses_its_coordinator() -> None:
    async def scene(bench: Bench) -> None:
        bench.see()
        await bench.until(lambda: bench.coordinators.view(KEY) is not None)
        bench.loop.touch(bench.registry.see_job(job_of().to_manifest(), gone=True))
        await bench.until(lambda: bench.coordinators.view(KEY) is None)

    run(scene)


def test_a_pod_that_was_created_is_not_created_again_before_the_watch_shows_it() -> None:
    async def scene(bench: Bench) -> None:
        bench.see()
        await bench.until(lambda: len(bench.api.did("create", "Pod")) == 2)
        for _ in range(5):
            bench.loop.touch(KEY, 0.0)
            await asyncio.sleep(0.02)

    assert len(run(scene).did("create", "Pod")) == 2


def test_nothing_is_written_from_the_moment_that_the_lease_is_not_sure() -> None:
    async def scene(bench: Bench) -> None:
        bench.see()
        await bench.until(lambda: len(bench.api.did("create", "Pod")) == 2)
        bench.has_the_lease = False
        written = len(_writes(bench.api))
        bench.see(replicas=5)
        await bench.until(lambda: bench.loop.retries > 0)
        bench.has_the_lease = True  # too late: what is left of a reign stays without rights
        bench.loop.touch(KEY, 0.0)
        await bench.until(lambda: bench.loop.retries > 1)
        assert len(_writes(bench.api)) == written

    run(scene)


def _writes(api: MemoryApi) -> list[tuple[str, str, str]]:
    return [call for call in api.calls if call[0] not in ("get", "list")]


def test_a_loop_that_is_stopped_leaves_no_pass_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> list[str]:
        bench, begun = Bench(), asyncio.Event()

        async def never(manifest: dict[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
            begun.set()
            return await asyncio.Future[dict[str, Any]]()

        monkeypatch.setattr(bench.api, "create", never)
        looking = asyncio.create_task(bench.loop.run())
        bench.see()
        await asyncio.wait_for(begun.wait(), _LIMIT)
        looking.cancel()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.wait_for(asyncio.gather(*others, return_exceptions=True), _LIMIT)
        await bench.coordinators.stop_all()
        return bench.api.did("create", "Pod")

    assert asyncio.run(play()) == []
