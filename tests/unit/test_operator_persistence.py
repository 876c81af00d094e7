"""Calls that are tried again: only where that may help, never for long, and never twice what must be done once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from itertools import islice
from typing import Any

import pytest

from omnilearn_coordinator.membership.actions import Happening, Kind
from omnilearn_operator.api import UNREACHABLE, ApiError, Manifest, error_of
from omnilearn_operator.doubts import Doubts
from omnilearn_operator.handlers import watch_settings
from omnilearn_operator.persistence import Persistent, pause_after
from omnilearn_operator.registry import Key
from omnilearn_operator.reign import Fenced, Reign
from operations import MemoryApi, pod

KEY = Key("team", "job")
POD: Manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "team"}}


def error(status: int, reason: str = "", retry_after: float = 0.0) -> ApiError:
    return ApiError(status, reason, "no", retry_after)


# When


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_an_api_server_in_trouble_is_asked_again(status: int) -> None:
    assert [pause_after(error(status), tries, 0.0) for tries in (1, 2, 3, 4)] == [0.2, 0.6, 1.5, None]


def test_one_that_cannot_be_reached_is_asked_again() -> None:
    assert pause_after(error(0, UNREACHABLE), 1, 0.0) == 0.2


@pytest.mark.parametrize(
    "answer", [error(0, "NotLeading"), *map(error, (400, 403, 404, 409, 410, 422))], ids=lambda each: str(each.status)
)
def test_an_answer_that_will_be_the_same_is_taken_at_once(answer: ApiError) -> None:
    assert pause_after(answer, 1, 0.0) is None


def test_it_is_asked_again_when_it_says_so_unless_that_is_too_late() -> None:
    assert pause_after(error(429, retry_after=2.0), 1, 0.0) == 2.0
    assert pause_after(error(429, retry_after=60.0), 1, 0.0) is None


def test_a_call_that_has_taken_long_is_not_repeated() -> None:
    assert pause_after(error(0, UNREACHABLE), 1, 20.0) is None


def test_when_to_come_again_is_read_from_the_answer() -> None:
    assert error_of(429, {}, "3").retry_after == 3.0
    assert error_of(429, {}, "Wed, 21 Oct 2026 07:28:00 GMT").retry_after == 0.0
    assert error_of(500, {}).retry_after == 0.0


# What comes of it


class Losing(MemoryApi):
    """Does what it is asked, and loses the first answers."""

    def __init__(self, answers: int) -> None:
        super().__init__()
        self.lost = answers

    async def create(self, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        made = await super().create(manifest, dry_run=dry_run)
        if self.lost:
            self.lost -= 1
            raise ApiError(0, UNREACHABLE, "the API server cannot be reached")
        return made


def outcome(call: Coroutine[Any, Any, object]) -> object:
    """Return what a call returns, or the status that it fails with."""
    try:
        return asyncio.run(call)
    except ApiError as failed:
        return failed.status


def test_who_creates_something_whose_answer_was_lost_hears_that_it_is_there() -> None:
    api = Losing(1)
    assert outcome(Persistent(api).create(POD)) == 409
    assert list(api.objects) == [("Pod", "p")]


def test_no_call_is_repeated_for_ever() -> None:
    api = MemoryApi()
    api.answers["get", "Pod"] = error(500)
    assert outcome(Persistent(api).get("Pod", "team", "p")) == 500
    assert len(api.calls) == 4


def test_nothing_is_repeated_once_another_one_leads() -> None:
    leads = iter([True, False])
    api = MemoryApi()
    api.answers["delete", "Pod"] = error(500)
    fenced = Persistent(Fenced(api, Reign(1, lambda: next(leads))))
    assert outcome(fenced.delete("Pod", "team", "p", "u")) == 0
    assert len(api.calls) == 1


# Watches


def test_a_watch_that_fails_is_never_given_up() -> None:
    pauses = watch_settings().networking.error_backoffs
    assert not isinstance(pauses, float)
    assert list(islice(pauses, 7)) == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0]
    assert next(iter(pauses)) == 0.5  # every request begins with a short one


def doubts(kind: Kind, worker: str | None = "job-a-0") -> Doubts:
    made = Doubts()
    made.hear(KEY, Happening(kind, "it is gone", worker), 100.0)
    return made


@pytest.mark.parametrize("kind", [Kind.LOST, Kind.LEFT, Kind.FAILED])
def test_a_worker_that_is_gone_while_its_pod_seems_well_is_a_reason_to_ask(kind: Kind) -> None:
    made = doubts(kind)
    assert [made.due(KEY, [pod()], now) for now in (100.0, 102.9, 103.0)] == [False, False, True]
    made.forget(KEY)
    assert not made.due(KEY, [pod()], 200.0)


def test_a_pod_whose_end_was_told_leaves_no_doubt() -> None:
    made = doubts(Kind.LOST)
    assert not made.due(KEY, [pod(leaving=True)], 101.0)
    assert not made.due(KEY, [pod(attempt=1)], 110.0)


@pytest.mark.parametrize(("kind", "worker"), [(Kind.JOINED, "job-a-0"), (Kind.LOST, None), (Kind.PLAN, None)])
def test_other_news_is_no_reason_to_ask(kind: Kind, worker: str | None) -> None:
    assert not doubts(kind, worker).due(KEY, [pod()], 200.0)
