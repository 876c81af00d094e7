"""Events of jobs: counted, held back where there are too many, and kept while nobody can take them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from omnilearn_core.api.names import Reason
from omnilearn_operator.api import UNREACHABLE, ApiError, Manifest, error_of
from omnilearn_operator.notes import Note
from omnilearn_operator.recorder import Recorder, event_name, pause_before_next
from operations import MemoryApi, job_of

NOTE = Note(Reason.WORKER_JOINED, "job-a-0 has joined")
CREATE = ("create", "Event")
AWAY = ApiError(0, UNREACHABLE, "the API server cannot be reached")
FORBIDDEN = ApiError(403, "Forbidden", "the operator may not")
ENDING = {
    "reason": "Forbidden",
    "message": "unable to create new content in namespace team because it is being terminated",
    "details": {"causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]},
}


def record(api: MemoryApi, *notes: Note, on_pause: Callable[[float], None] = lambda _: None) -> float:
    """Have notes written; return how long was waited for that, which takes no time here."""
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        on_pause(now)

    async def write() -> None:
        recorder = Recorder(api, clock=lambda: now, sleep=sleep)
        writing = asyncio.create_task(recorder.run())
        for note in notes:
            recorder.record(job_of(), note)
        await recorder.written()
        writing.cancel()

    asyncio.run(write())
    return now


def test_the_same_event_again_is_counted() -> None:
    api = MemoryApi()
    record(api, NOTE, NOTE, NOTE)
    (event,) = api.objects.values()
    assert (event["count"], event["reason"], event["involvedObject"]["name"]) == (3, "WorkerJoined", "job")


def test_of_a_job_that_is_gone_nothing_is_remembered() -> None:
    recorder, job = Recorder(MemoryApi(), clock=lambda: 0.0), job_of()
    recorder.record(job, NOTE)
    assert recorder._told
    recorder.forget(job.metadata.uid or "")
    asyncio.run(recorder.write(job, NOTE, "2026-11-17T12:00:00Z", 0.0))
    assert not recorder._told


def test_too_many_events_of_a_kind_are_held_back_and_no_others() -> None:
    api = MemoryApi()
    record(api, *(Note(Reason.BATCH_REBALANCED, f"{number}") for number in range(100)), NOTE)
    assert len(api.objects) == 41
    assert NOTE.reason in {event["reason"] for event in api.objects.values()}


def test_an_event_that_a_former_operator_has_told_is_counted_on() -> None:
    """Otherwise the second eviction of a worker would be in no event, if the operator was replaced in between."""
    api = MemoryApi()
    name = event_name(job_of(), NOTE)
    api.objects["Event", name] = {"metadata": {"name": name}, "count": 2}
    record(api, NOTE, NOTE)
    (event,) = api.objects.values()
    assert event["count"] == 4


# While they cannot be written


@pytest.mark.parametrize(("error", "seconds"), [(AWAY, 300.0), (FORBIDDEN, 3.0)], ids=["away", "rights not read yet"])
def test_what_happens_while_an_api_server_is_not_itself_is_told_later_and_once(error: ApiError, seconds: float) -> None:
    api = MemoryApi()
    api.answers[CREATE] = error

    def back_after(waited: float) -> None:
        if waited >= seconds:
            api.answers.clear()

    record(api, NOTE, Note(Reason.WORKER_LOST, "job-a-0 is silent"), on_pause=back_after)
    assert [(event["reason"], event["count"]) for event in api.objects.values()] == [
        ("WorkerJoined", 1),
        ("WorkerLost", 1),
    ]


def test_what_has_waited_through_an_outage_is_not_lost_to_the_first_refusal_after_it() -> None:
    api = MemoryApi()
    api.answers[CREATE] = AWAY

    def back_after(waited: float) -> None:
        if waited >= 65.0:
            api.answers.clear()
        elif waited >= 60.0:
            api.answers[CREATE] = FORBIDDEN

    record(api, NOTE, on_pause=back_after)
    assert len(api.objects) == 1


@pytest.mark.parametrize(
    ("error", "seconds"),
    [(AWAY, 610.0), (FORBIDDEN, 11.0), (error_of(403, ENDING), 0.0), (error_of(422, {}), 0.0)],
    ids=["away", "no rights", "the namespace is being deleted", "not valid"],
)
def test_events_that_are_never_taken_are_given_up_in_time_and_do_no_harm(error: ApiError, seconds: float) -> None:
    api = MemoryApi()
    api.answers[CREATE] = error
    assert record(api, NOTE) <= seconds
    assert api.objects == {}


def test_many_events_that_cannot_be_written_are_not_kept_one_after_the_other() -> None:
    api = MemoryApi()
    api.answers[CREATE] = AWAY
    assert record(api, *(Note(Reason.WORKER_JOINED, f"{number}") for number in range(30))) <= 620.0


def test_an_event_of_which_only_the_answer_was_lost_is_counted_once() -> None:
    api = MemoryApi()
    lost = iter([AWAY])
    create = api.create

    async def losing(manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        made = await create(manifest, dry_run=dry_run)
        for error in lost:
            raise error
        return made

    api.create = losing  # type: ignore[method-assign]
    record(api, NOTE)
    (event,) = api.objects.values()
    assert event["count"] == 1


def test_tries_become_rarer() -> None:
    pauses = [pause_before_next(AWAY, tries, 0.0, 0.0) for tries in range(1, 7)]
    assert pauses == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_an_api_server_is_asked_again_when_it_says() -> None:
    assert pause_before_next(error_of(429, {}, "30"), 1, 0.0, 0.0) == 30.0
