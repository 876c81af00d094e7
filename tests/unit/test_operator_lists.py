"""Lists of everything: what a watch has not told is found, and what is newer than a list is kept."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from omnilearn_operator.api import ApiError
from omnilearn_operator.lists import Lists
from omnilearn_operator.registry import Key, Registry
from operations import MemoryApi, job_of

KEY = Key("team", "job")


def job(version: str = "1") -> dict[str, Any]:
    manifest = job_of().to_manifest()
    manifest["metadata"]["resourceVersion"] = version
    return manifest


def listed(api: MemoryApi, registry: Registry, namespaces: tuple[str, ...] = ()) -> list[Key]:
    touched: list[Key] = []
    asyncio.run(Lists(api, registry, namespaces).see_everything(touched.append))
    return touched


def test_a_job_that_nobody_told_of_is_seen_and_looked_at() -> None:
    api, registry = MemoryApi(), Registry()
    api.objects["OmniLearnJob", "job"] = job()
    assert (listed(api, registry), list(registry.jobs)) == ([KEY], [KEY])


def test_a_job_that_is_known_as_it_is_is_left_alone() -> None:
    api, registry = MemoryApi(), Registry()
    api.objects["OmniLearnJob", "job"] = job()
    registry.see_job(job())
    assert listed(api, registry) == []


def test_a_job_that_is_not_in_the_list_is_lost() -> None:
    registry = Registry()
    registry.see_job(job("0"))
    assert (listed(MemoryApi(), registry), list(registry.jobs)) == ([KEY], [])


def test_a_job_that_is_newer_than_the_list_is_kept() -> None:
    registry = Registry()
    registry.see_job(job("2"))
    assert (listed(MemoryApi(), registry), list(registry.jobs)) == ([], [KEY])


def test_a_list_of_one_namespace_says_nothing_of_another() -> None:
    registry = Registry()
    registry.see_job(job("0"))
    assert (listed(MemoryApi(), registry, ("elsewhere",)), list(registry.jobs)) == ([], [KEY])


@pytest.mark.parametrize("error", [ApiError(0, "Unreachable", "away"), ApiError(410, "Expired", "too old")])
def test_a_list_that_fails_is_tried_again(error: ApiError) -> None:
    api, registry = MemoryApi(), Registry()
    api.objects["OmniLearnJob", "job"] = job()
    api.answers["list", "OmniLearnJob"] = error

    async def play() -> None:
        lists, seen = Lists(api, registry, ()), asyncio.Event()
        running = asyncio.create_task(lists.run(lambda _: seen.set()))
        lists.soon()
        async with asyncio.timeout(20):
            while not api.did("list", "OmniLearnJob"):  # noqa: ASYNC110 - the API in memory tells nobody
                await asyncio.sleep(0.01)
            del api.answers["list", "OmniLearnJob"]
            await seen.wait()
        running.cancel()

    asyncio.run(play())
    assert list(registry.jobs) == [KEY]


def test_an_error_that_nobody_expects_does_not_end_the_lists() -> None:
    class Odd(MemoryApi):
        failed = False

        async def every(self, kind: str, namespace: str, selector: str = "", fields: str = "") -> dict[str, Any]:
            if not self.failed:
                self.failed = True
                raise TypeError("an error of ours")
            return await super().every(kind, namespace, selector, fields)

    async def play() -> Key:
        api, touched = Odd(), asyncio.Queue[Key]()
        api.objects["OmniLearnJob", "job"] = job()
        lists = Lists(api, Registry(), ())
        lists.soon()
        listing = asyncio.create_task(lists.run(touched.put_nowait))
        try:
            return await asyncio.wait_for(touched.get(), 10)
        finally:
            listing.cancel()

    assert asyncio.run(play()) == KEY
