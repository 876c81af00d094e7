"""What goes wrong with workers, and what a job does about it: memory, exit codes, pauses, pods that do not start."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

from decisions import HASH, book_of, condition, look, reasons
from omnilearn_core.api.status import JobStatus
from omnilearn_operator.api import ApiError
from omnilearn_operator.book import OBJECTS, Book, Delay
from omnilearn_operator.delays import reason_in
from omnilearn_operator.executor import Executor
from omnilearn_operator.manifests.place import Place
from omnilearn_operator.observed import Assigned, Ended, pod_from
from omnilearn_operator.reconcile import Decision
from omnilearn_operator.recorder import Recorder
from omnilearn_operator.registry import Key, Registry
from operations import CREATED, NOW, MemoryApi, completed, job_of, member, pod, view_of

KILLED = Ended(137, "OOMKilled", at=NOW - timedelta(seconds=5))
KEY = Key("team", "job")


def perform(decision: Decision, api: MemoryApi, **spec: Any) -> Book:
    executor = Executor(api, Registry(), Recorder(api), lambda _: Place("wss://here", "ca"))
    book, _ = asyncio.run(executor.perform(KEY, job_of(**spec), decision, NOW))
    return book


# Memory


def test_a_worker_out_of_memory_comes_back_with_half_of_what_it_had_and_costs_no_failure() -> None:
    decision = look(job_of(1), pod(running=False, ended=KILLED, assigned=Assigned(40, 1, 1)))
    (create,) = decision.create
    assert (create.attempt, create.memory_bound, decision.book.failures) == (1, 20, 0)
    assert reasons(decision) == ["WorkerOutOfMemory"]


def test_a_worker_that_is_out_of_memory_with_one_sample_has_failed() -> None:
    decision = look(job_of(1), pod(running=False, ended=KILLED, assigned=Assigned(40, 1, 1), memory_bound=1))
    assert (decision.book.failures, decision.create[0].memory_bound) == (1, 1)


def test_a_worker_out_of_memory_after_the_last_sample_has_failed() -> None:
    view = view_of([member()], outcome=completed("job-a-0"))
    killed = pod(running=False, ended=KILLED, assigned=Assigned(40, 1, 1))
    assert condition(look(job_of(1), killed, view=view), "Failed") == ("True", "ScriptFailed")


def test_another_template_forgets_what_was_learned_of_the_memory() -> None:
    old = pod(template="old", running=False, ended=KILLED, assigned=Assigned(40, 1, 1), memory_bound=8)
    assert look(job_of(1), old).create[0].memory_bound == 0


def test_what_was_learned_of_the_memory_outlives_a_preemption() -> None:
    assert look(job_of(1), pod(leaving=True, memory_bound=8)).create[0].memory_bound == 8


def test_a_pod_carries_what_was_learned_of_the_memory() -> None:
    api = MemoryApi()
    perform(look(job_of(1), pod(running=False, ended=KILLED, assigned=Assigned(40, 1, 1))), api, replicas=1)
    made = pod_from(api.objects["Pod", "job-a-0-1"])
    assert made is not None
    assert made.memory_bound == 20
    environment = api.objects["Pod", "job-a-0-1"]["spec"]["containers"][0]["env"]
    assert {"name": "OMNILEARN_MEMORY_BOUND", "value": "20"} in environment


# Exit codes


def test_an_exit_code_that_the_job_names_fails_it_at_once() -> None:
    job = job_of(2, restart={"failOnExitCodes": [3]})
    decision = look(job, pod(running=False, ended=Ended(3, message="no such dataset", at=NOW)), pod(1))
    assert (condition(decision, "Failed"), decision.create) == (("True", "ScriptFailed"), ())
    assert decision.status is not None
    assert "exited with 3" in decision.status.conditions[0].message
    assert "no such dataset" in decision.status.conditions[0].message


def test_other_exit_codes_are_tried_again() -> None:
    failed = pod(running=False, ended=Ended(4, at=NOW - timedelta(seconds=9)))
    assert look(job_of(1, restart={"failOnExitCodes": [3]}), failed).create


# Pauses


def test_when_a_worker_is_tried_again_is_told() -> None:
    failed = pod(1, running=False, ended=Ended(1, at=NOW))
    decision = look(job_of(2), pod(0), failed, view=view_of([member(0)]))
    assert decision.status is not None
    degraded = next(each for each in decision.status.conditions if each.type == "Degraded")
    assert "job-a-1 is tried again at 10:01:01 UTC" in degraded.message


# Pods that do not start


def test_events_are_read_of_a_pod_that_its_node_does_not_start() -> None:
    slow = pod(running=False, creating_since=NOW - timedelta(seconds=4))
    assert look(job_of(1), slow).ask == (slow,)
    assert look(job_of(1), pod(running=False, creating_since=NOW - timedelta(seconds=1))).ask == ()


def test_events_of_a_pod_are_not_read_all_the_time() -> None:
    slow = pod(running=False, creating_since=NOW - timedelta(seconds=60))
    known = {"uid-0-0": Delay("", NOW - timedelta(seconds=2), times=2)}
    decision = look(job_of(1), slow, delays=known)
    assert (decision.ask, decision.again) == ((), 8.0)
    assert look(job_of(1), slow, delays=known, now=NOW + timedelta(seconds=9)).ask == (slow,)


def test_what_events_say_of_a_pod_is_in_the_condition() -> None:
    slow = pod(running=False, creating_since=NOW - timedelta(seconds=60))
    decision = look(job_of(1), slow, delays={"uid-0-0": Delay("FailedMount: no such ConfigMap", NOW)})
    assert decision.status is not None
    assert "job-a-0-0: FailedMount: no such ConfigMap" in decision.status.conditions[0].message


def test_the_newest_warning_is_what_counts() -> None:
    events = [
        {"type": "Warning", "reason": "FailedMount", "message": "old", "lastTimestamp": "2026-11-16T10:00:00Z"},
        {"type": "Warning", "reason": "FailedMount", "message": "new", "lastTimestamp": "2026-11-16T10:00:05Z"},
        {"type": "Normal", "reason": "Scheduled", "message": "fine", "lastTimestamp": "2026-11-16T10:00:09Z"},
    ]
    assert (reason_in(events, CREATED), reason_in([], CREATED)) == ("FailedMount: new", "")


def test_a_warning_from_before_the_pod_had_a_node_is_settled() -> None:
    events = [
        {"type": "Warning", "reason": "FailedScheduling", "message": "no", "lastTimestamp": "2026-11-16T09:59:59Z"}
    ]
    assert reason_in(events, CREATED) == ""


def test_events_that_cannot_be_read_hold_up_nothing() -> None:
    api, slow = MemoryApi(), pod(running=False, creating_since=NOW - timedelta(seconds=4))
    perform(look(job_of(1), slow), api)
    assert api.did("list", "Event")


# After the end


def ended(seconds_ago: float) -> JobStatus:
    at = (NOW - timedelta(seconds=seconds_ago)).isoformat()
    condition = {"type": "Complete", "status": "True", "reason": "AllSamplesCommitted", "lastTransitionTime": at}
    return JobStatus.from_manifest({"phase": "Complete", "conditions": [condition], "completionTime": at})


def test_a_job_is_deleted_when_its_time_after_the_end_is_over() -> None:
    job = job_of(1, ttlSecondsAfterFinished=60)
    assert look(job, book=book_of(job, status=ended(61))).expire
    early = look(job, book=book_of(job, status=ended(50)))
    assert (early.expire, round(early.again)) == (False, 10)


def test_a_job_that_runs_or_has_no_such_time_is_not_deleted() -> None:
    assert not look(job_of(1, ttlSecondsAfterFinished=0), pod(), view=view_of([member()])).expire
    assert not look(job_of(1), book=book_of(job_of(1), status=ended(10_000))).expire


def test_only_the_very_job_that_has_ended_is_deleted() -> None:
    api, job = MemoryApi(), job_of(1, ttlSecondsAfterFinished=0)
    perform(look(job, book=book_of(job, status=ended(1))), api)
    assert api.did("delete", "OmniLearnJob") == ["job"]


# Names that are taken


def owned(kind: str, name: str, *owners: dict[str, str], **metadata: str) -> MemoryApi:
    api = MemoryApi()
    api.objects[kind, name] = {"kind": kind, "metadata": {"name": name, "ownerReferences": list(owners), **metadata}}
    return api


FORMER = {"kind": "OmniLearnJob", "name": "job", "uid": "earlier"}


def test_a_pod_of_somebody_else_is_told_and_not_tried_all_the_time() -> None:
    api = owned("Pod", "job-a-0-0", {"kind": "ReplicaSet", "name": "web", "uid": "other"})
    check = perform(look(job_of(1)), api, replicas=1).checks[HASH]
    assert check.refused == "there is a Pod job-a-0-0 of somebody else: rename the job"
    assert check.again == NOW + timedelta(seconds=10)
    assert look(job_of(1), checks={HASH: check}).create == ()
    api.answers["try", "Pod"] = ApiError(409, "AlreadyExists", "job-a-0-0 is there already")
    due = look(job_of(1), checks={HASH: replace(check, again=NOW)})
    assert perform(due, api, replicas=1).checks[HASH] == check


def test_a_pod_of_our_own_whose_creation_was_not_answered_is_taken_in() -> None:
    api = owned("Pod", "job-a-0-0", {"kind": "OmniLearnJob", "name": "job", "uid": "job-uid"})
    assert perform(look(job_of(1)), api, replicas=1).checks[HASH].good


def test_what_an_earlier_job_of_the_same_name_has_left_is_waited_for() -> None:
    for kind, name, check in (("Service", "job", OBJECTS), ("Pod", "job-a-0-0", HASH)):
        found = perform(look(job_of(1)), owned(kind, name, FORMER), replicas=1).checks[check]
        assert found.refused == f"the {kind} {name} of an earlier job of this name is being cleaned up"
        assert found.again == NOW + timedelta(seconds=1.5)


def test_a_pod_of_somebody_else_that_is_about_to_go_is_waited_for() -> None:
    api = owned("Pod", "job-a-0-0", deletionTimestamp="2026-11-16T10:00:00Z")
    assert perform(look(job_of(1)), api, replicas=1).checks[HASH].refused == "the Pod job-a-0-0 is about to go"


def test_a_status_that_was_not_taken_is_not_tried_again_within_a_second() -> None:
    api = MemoryApi()
    api.answers["status", "OmniLearnJob"] = ApiError(500, "InternalError", "no")
    book = perform(look(job_of(1)), api, replicas=1)
    assert (book.unsure, book.written) == (True, NOW)


def test_pods_that_tell_how_a_job_ended_go_only_when_that_is_written() -> None:
    ended, view = pod(running=False, ended=Ended(0, at=NOW)), view_of([member()], outcome=completed("job-a-0"))
    decision = look(job_of(1, cleanPods="All"), ended, view=view)
    assert [each.name for each in decision.delete] == [ended.name]
    sound, broken = MemoryApi(), MemoryApi()
    broken.answers["status", "OmniLearnJob"] = ApiError(500, "InternalError", "no")
    for api in (sound, broken):
        perform(decision, api, replicas=1, cleanPods="All")
    assert (sound.did("delete", "Pod"), broken.did("delete", "Pod")) == ([ended.name], [])


# Gradients


def test_skipped_steps_are_told_when_there_are_more_of_them_and_not_all_the_time() -> None:
    def later(before: Decision, seconds: float, skipped: int) -> Decision:
        now = NOW + timedelta(seconds=seconds)
        return look(job_of(1), pod(), view=view_of([member()], skipped=skipped), book=before.book, now=now)

    first = look(job_of(1), pod(), view=view_of([member()], skipped=1))
    assert [each.message for each in first.tell if each.reason == "StepSkipped"] == [
        "1 step was skipped so far: the gradient was not finite"
    ]
    soon, then = later(first, 5, 3), later(first, 30, 4)
    assert ["StepSkipped" in reasons(each) for each in (soon, then, later(then, 60, 4))] == [False, True, False]
    back = later(then, 60, 2)
    assert "StepSkipped" not in reasons(back)
    assert "StepSkipped" in reasons(later(back, 90, 3))
