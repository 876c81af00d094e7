"""What is decided about a job: a table of situations."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from decisions import GOOD, HASH, condition, look, reasons
from omnilearn_coordinator.membership.state import Outcome
from omnilearn_core.api.status import JobStatus
from omnilearn_operator.book import OBJECTS, Check, opened
from omnilearn_operator.observed import Assigned, Ended
from omnilearn_operator.reconcile import decide
from omnilearn_operator.status import Seen
from operations import NOW, completed, decided, job_of, member, pod, view_of


def test_a_new_job_has_its_template_tried_before_anything_is_created() -> None:
    decision = look(job_of(), checks={})
    assert ([each.name for each in decision.check], decision.create, decision.apply) == (["job-a-0"], (), False)


def test_a_good_template_becomes_pods_service_and_policy() -> None:
    decision = look(job_of())
    assert ([each.name for each in decision.create], decision.apply) == (["job-a-0", "job-a-1"], True)


def test_service_and_policy_are_applied_once_for_each_version_of_the_spec() -> None:
    assert not look(job_of(), applied=1).apply


def test_a_bad_template_is_told_and_nothing_is_created() -> None:
    decision = look(job_of(), checks={HASH: Check(invalid="no such field")})
    assert (decision.create, condition(decision, "Ready")) == ((), ("False", "BadTemplate"))


def test_a_refused_pod_is_told_and_tried_again_later() -> None:
    refused = {HASH: Check(refused="quota", again=NOW + timedelta(seconds=4))}
    decision = look(job_of(), checks=refused)
    assert (decision.check, decision.create, round(decision.again)) == ((), (), 4)
    assert condition(decision, "Ready") == ("False", "PodRefused")
    later = look(job_of(), checks=refused, now=NOW + timedelta(seconds=5))
    assert [each.name for each in later.check] == ["job-a-0"]


def test_a_worker_that_failed_comes_back_after_a_pause() -> None:
    failed = pod(running=False, ended=Ended(1, at=NOW - timedelta(seconds=0.4)))
    decision = look(job_of(1), failed)
    assert (decision.create, round(decision.again, 1)) == ((), 0.6)
    later = look(job_of(1), failed, now=NOW + timedelta(seconds=1), book=decision.book)
    assert [(each.name, each.attempt) for each in later.create] == [("job-a-0", 1)]


def test_the_end_of_a_pod_is_counted_once() -> None:
    failed = pod(running=False, ended=Ended(1, at=NOW))
    first = look(job_of(1), failed)
    second = look(job_of(1), failed, book=first.book)
    assert (first.book.failures, reasons(first)) == (1, ["WorkerFailed"])
    assert (second.book.failures, reasons(second)) == (1, [])


def test_an_operator_that_starts_anew_counts_no_end_again() -> None:
    failed = pod(running=False, ended=Ended(1, at=NOW))
    first = look(job_of(1), failed)
    assert first.status is not None
    job = job_of(1, status=first.status.to_manifest())
    assert look(job, failed, book=replace(opened(job, NOW), checks=GOOD)).book.failures == 1


def test_a_member_that_went_while_no_operator_looked_is_told_and_counted_once() -> None:
    trains = look(job_of(), pod(0), pod(1), view=view_of([member(0), member(1)]))
    assert trains.status is not None
    job = job_of(status=trains.status.to_manifest())
    first = look(job, pod(0), book=replace(opened(job, NOW), checks=GOOD))
    assert [note.message for note in first.tell if note.reason == "WorkerPreempted"] == [
        "job-a-1 was taken away while no operator looked"
    ]
    assert (first.book.preemptions, [(each.name, each.attempt) for each in first.create]) == (1, [("job-a-1", 1)])
    assert first.status is not None
    job = job_of(status=first.status.to_manifest())
    again = look(job, pod(0), book=replace(opened(job, NOW), checks=GOOD))
    assert (again.book.preemptions, "WorkerPreempted" in reasons(again)) == (1, False)


def test_a_job_is_complete_when_its_workers_have_ended_after_the_last_sample() -> None:
    view = view_of([member(0), member(1)], outcome=completed("job-a-0", "job-a-1"))
    ended = Ended(0, at=NOW)
    saving = look(job_of(), pod(0, running=False, ended=ended), pod(1), view=view)
    assert (saving.status and saving.status.phase, saving.delete) == ("Running", ())
    gone = look(
        job_of(), pod(0, running=False, ended=ended), pod(1, running=False, ended=ended), view=view, book=saving.book
    )
    assert condition(gone, "Complete") == ("True", "AllSamplesCommitted")
    assert gone.status is not None
    assert (gone.book.failures, gone.status.step, gone.status.progress_percent) == (0, 9, 100)


def test_pods_of_a_job_that_has_ended_stay_until_its_end_is_written() -> None:
    job = job_of(cleanPods="All")
    view = view_of([member(0), member(1)], outcome=completed("job-a-0", "job-a-1"))
    ended = [pod(each, running=False, ended=Ended(0, at=NOW)) for each in (0, 1)]
    first = look(job, pod(0), pod(1), view=view)
    assert first.status is not None
    written = replace(first.book, status=first.status, written=NOW)
    soon = look(job, *ended, view=view, book=written, now=NOW + timedelta(seconds=0.4))
    assert (soon.status, soon.delete) == (None, ())
    later = look(job, *ended, view=view, book=soon.book, now=NOW + timedelta(seconds=1.1))
    assert condition(later, "Complete") == ("True", "AllSamplesCommitted")
    assert len(later.delete) == 2


def test_a_worker_that_does_not_end_does_not_keep_a_job_from_completing_for_ever() -> None:
    view = view_of([member(0)], outcome=completed("job-a-0"))
    first = look(job_of(1), pod(0), view=view)
    later = look(job_of(1), pod(0), view=view, book=first.book, now=NOW + timedelta(seconds=301))
    assert condition(later, "Complete") == ("True", "AllSamplesCommitted")
    assert [each.name for each in later.delete] == ["job-a-0-0"]


def test_a_script_that_fails_after_the_last_sample_fails_the_job() -> None:
    view = view_of([member(0)], outcome=completed("job-a-0"))
    first = look(job_of(1), pod(0), view=view)
    failed = pod(running=False, ended=Ended(1, at=NOW, message="No space left on device"))
    decision = look(job_of(1), failed, view=view, book=first.book, now=NOW + timedelta(seconds=2))
    assert condition(decision, "Failed") == ("True", "ScriptFailed")
    assert decision.status is not None
    message = next(each.message for each in decision.status.conditions if each.type == "Failed")
    assert message == "all samples are committed, but job-a-0 exited with 1: No space left on device"


def test_what_a_pod_has_left_tells_a_new_operator_that_the_job_is_complete() -> None:
    ended = pod(running=False, ended=Ended(0, at=NOW, message='{"type": "done", "steps": 3}'))
    assert condition(look(job_of(1), ended), "Complete") == ("True", "AllSamplesCommitted")


def test_a_script_that_ends_without_that_word_has_ended_too_early() -> None:
    decision = look(job_of(1), pod(running=False, ended=Ended(0, at=NOW)))
    assert decision.book.last_failure == "job-a-0 ended before the job was complete"


def test_a_job_that_its_coordinator_gives_up_has_failed() -> None:
    view = view_of([member(0)], outcome=Outcome(False, "the models differ"))
    decision = look(job_of(1), pod(0), view=view)
    assert condition(decision, "Failed") == ("True", "ScriptFailed")
    assert [each.why for each in decision.delete] == ["the job has ended"]


@pytest.mark.parametrize(
    ("policy", "gone"),
    [("Running", ["job-a-1-0"]), ("All", ["job-a-0-0", "job-a-1-0"]), ("None", [])],
)
def test_pods_of_an_ended_job_go_or_stay_as_the_job_says(policy: str, gone: list[str]) -> None:
    ended = Ended(0, at=NOW, message='{"type": "done"}')
    quiet = pod(0, running=False, ended=ended, alive=False)
    sidecar = pod(1, running=False, ended=ended, alive=True)
    assert [each.name for each in look(job_of(2, cleanPods=policy), quiet, sidecar).delete] == gone


def test_an_ended_job_stays_ended_and_needs_no_coordinator() -> None:
    ended = pod(running=False, alive=False, ended=Ended(0, at=NOW, message='{"type": "done"}'))
    first = look(job_of(1), ended)
    assert first.status is not None
    book = replace(first.book, status=first.status, written=NOW)
    second = look(job_of(1), book=book, now=NOW + timedelta(hours=1))
    assert (second.status, second.create, second.coordinate) == (None, (), False)


def test_every_member_s_share_is_written_to_its_pod_on_change_only() -> None:
    view = view_of([member(0, share=40), member(1, share=24)])
    known = pod(1, assigned=Assigned(24, 3, 2), authorities="ca")
    decision = look(job_of(), pod(0, authorities="ca"), known, view=view)
    assert [(each.pod.name, each.assigned) for each in decision.annotate] == [("job-a-0-0", Assigned(40, 3, 2))]


def test_new_authorities_are_written_to_all_pods() -> None:
    decision = look(job_of(), pod(0, authorities="old"), pod(1, authorities="ca"))
    assert [(each.pod.name, each.authorities) for each in decision.annotate] == [("job-a-0-0", "ca")]


def test_progress_is_written_every_few_seconds_and_news_at_once() -> None:
    job, pods = job_of(), (pod(0, authorities="ca"), pod(1, authorities="ca"))
    first = look(job, *pods, view=view_of([member(0), member(1)]))
    assert first.status is not None
    book = replace(first.book, status=first.status, written=NOW)
    further = view_of([member(0), member(1)], step=8, samples=512)
    soon = NOW + timedelta(seconds=2)
    assert look(job, *pods, view=further, book=book, now=soon).status is None
    assert look(job, *pods, view=further, book=book, now=NOW + timedelta(seconds=5)).status is not None
    assert look(job, pods[0], view=further, book=book, now=soon).status is not None


def test_nothing_is_written_when_nothing_has_changed() -> None:
    job, view = job_of(), view_of([member(0), member(1)])
    first = look(job, pod(0), pod(1), view=view)
    assert first.status is not None
    book = replace(first.book, status=first.status, written=NOW)
    assert look(job, pod(0), pod(1), view=view, book=book).status is None


def test_an_operator_that_starts_anew_believes_its_predecessor_until_the_members_have_come_back() -> None:
    job, view = job_of(), view_of([member(0), member(1)])
    before = look(job, pod(0), pod(1), view=view).status
    assert before is not None
    adopted = job_of(status=before.to_manifest())
    book = replace(opened(adopted, NOW), checks=GOOD)
    fresh = decide(Seen(adopted, (pod(0), pod(1)), view_of(), NOW + timedelta(seconds=1)), book, "ca")
    status = fresh.status or book.status
    assert status.phase == "Running"
    late = decide(Seen(adopted, (pod(0), pod(1)), view_of(), NOW + timedelta(seconds=30)), book, "ca")
    assert late.status is not None
    assert late.status.phase == "Waiting"


def test_a_job_that_is_edited_is_ready_while_its_new_coordinator_hears_who_trains() -> None:
    job, both = job_of(), view_of([member(0), member(1)])
    late = NOW + timedelta(minutes=5)
    first = look(job, pod(0), pod(1), view=both, now=late)
    assert first.status is not None
    book, soon = replace(first.book, status=first.status, written=late), late + timedelta(seconds=2)
    assert look(job, pod(0), pod(1), view=view_of(), book=book, now=soon).status is None
    lost = look(job, pod(0), pod(1, running=False), view=view_of(), book=book, now=soon).status
    assert lost is not None
    assert lost.workers is not None
    assert (lost.phase, lost.workers.members) == ("Running", 1)


def test_a_suspended_job_lets_its_pods_go_and_says_so() -> None:
    decision = look(job_of(suspend=True), pod(0))
    assert ([each.name for each in decision.delete], condition(decision, "Suspended")) == (
        ["job-a-0-0"],
        ("True", "SuspendedByUser"),
    )


def test_shares_that_have_settled_are_told_once() -> None:
    view = view_of([member(0), member(1)], decisions=(decided(25.0),))
    first = look(job_of(), pod(0), pod(1), view=view)
    assert "Converged" in reasons(first)
    assert "Converged" not in reasons(look(job_of(), pod(0), pod(1), view=view, book=first.book))


def test_the_status_of_a_running_job_is_what_people_look_for() -> None:
    status = look(job_of(), pod(0), pod(1), view=view_of([member(0), member(1)])).status
    assert isinstance(status, JobStatus)
    assert (status.phase, status.step, status.progress_percent, status.generation) == ("Running", 7, 44, 3)
    assert status.workers is not None
    assert (status.workers.summary, status.workers.members) == ("2/2", 2)
    assert [each.share for each in status.members] == [32, 32]


def test_the_status_has_what_the_strategy_is_known_by() -> None:
    local = look(job_of(), pod(0), pod(1), view=view_of([member(0, local_steps=3), member(1, local_steps=22)])).status
    assert local is not None
    assert (local.local_steps, local.max_staleness, local.rounds) == ("3-22", None, 9)
    late = [member(0, staleness=0.5, most_stale=2), member(1, staleness=2.0, most_stale=7)]
    served = look(job_of(), pod(0), pod(1), view=view_of(late)).status
    assert served is not None
    assert (served.local_steps, served.max_staleness) == (None, 7)


def test_a_pod_that_the_operator_has_deleted_counts_as_no_preemption() -> None:
    first = look(job_of(1), pod(0), pod(1))
    assert [each.name for each in first.delete] == ["job-a-1-0"]
    second = look(job_of(1), pod(0), pod(1, leaving=True), book=first.book)
    assert (second.book.preemptions, reasons(second)) == (0, [])


def test_no_status_is_written_within_a_second_of_another_whatever_has_happened() -> None:
    lately = NOW - timedelta(seconds=0.4)
    gone = look(job_of(1), pod(leaving=True), written=lately)
    assert (gone.status, gone.create, round(gone.again, 3)) == (None, (), 0.6)
    then = look(job_of(1), pod(leaving=True), book=gone.book, now=NOW + timedelta(seconds=0.6))
    assert (then.status is not None, [each.attempt for each in then.create]) == (True, [1])
    unsure = look(job_of(1), pod(), written=lately, unsure=True)
    assert (unsure.status, round(unsure.again, 3)) == (None, 0.6)


def test_service_and_policy_are_restored_after_a_while_whoever_has_deleted_them() -> None:
    view = view_of([member()])
    known: dict[str, Any] = {"applied": 1, "applied_at": NOW}
    later = [look(job_of(1), pod(), view=view, now=NOW + timedelta(seconds=s), **known).apply for s in (299, 300)]
    assert later == [False, True]
    refused = {OBJECTS: Check(refused="a policy", again=NOW + timedelta(hours=1))}
    after = NOW + timedelta(minutes=9)
    assert not look(job_of(1), pod(), view=view, now=after, checks=refused, **known).apply
    assert not look(job_of(1, suspend=True), now=after, **known).apply
