"""What is decided when a job changes, and when it waits."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from decisions import HASH, book_of, condition, look, reasons, said
from omnilearn_coordinator.view import JobView
from omnilearn_core.api.job import OmniLearnJob
from omnilearn_operator.book import Check
from omnilearn_operator.manifests.pods import template_hash
from omnilearn_operator.observed import Assigned, Ended, Pod
from omnilearn_operator.reconcile import Decision
from operations import CREATED, NOW, decided, job_of, member, pod, view_of

# A new template


def changed_job(replicas: int = 2, **spec: Any) -> OmniLearnJob:
    template = {"spec": {"containers": [{"name": "trainer", "image": "new"}]}}
    return job_of(workers=[{"name": "a", "replicas": replicas, "template": template}], **spec)


NEW = template_hash(changed_job().spec.workers[0])


def test_a_new_template_is_tried_before_any_pod_goes() -> None:
    view = view_of([member(0), member(1)])
    decision = look(changed_job(), pod(0), pod(1), view=view)
    assert ([each.name for each in decision.check], decision.delete) == (["job-a-0"], ())


def test_a_bad_new_template_costs_no_pod() -> None:
    view = view_of([member(0), member(1)])
    decision = look(changed_job(), pod(0), pod(1), view=view, checks={NEW: Check(invalid="no such field")})
    assert decision.delete == ()


def test_a_new_template_is_rolled_out_pod_by_pod_while_everybody_trains() -> None:
    both, checks = view_of([member(0), member(1)]), {NEW: Check()}
    first = look(changed_job(), pod(0), pod(1), view=both, checks=checks)
    assert [each.name for each in first.delete] == ["job-a-0-0"]
    next_pod = pod(0, attempt=1, template=NEW, running=False)
    meanwhile = look(changed_job(), next_pod, pod(1), view=view_of([member(1)]), checks=checks)
    assert meanwhile.delete == ()
    trains = replace(next_pod, running=True)
    later = look(changed_job(), trains, pod(1), view=view_of([member(0, attempt=1), member(1)]), checks=checks)
    assert [each.name for each in later.delete] == ["job-a-1-0"]


def test_a_job_that_was_suspended_for_long_has_its_whole_time_to_start() -> None:
    suspended = look(job_of(suspend=True))
    assert suspended.status is not None
    book = replace(suspended.book, status=suspended.status)
    resumed = look(job_of(), book=book, now=NOW + timedelta(hours=2))
    assert resumed.status is not None
    assert resumed.status.phase == "Pending"


def test_the_time_in_which_a_job_is_suspended_is_none_of_the_time_that_it_may_run() -> None:
    def then(before: Decision, minutes: float, *, suspend: bool) -> Decision:
        job = job_of(1, suspend=suspend, activeDeadlineSeconds=600)
        book = before.book if before.status is None else replace(before.book, status=before.status, written=None)
        return look(job, pod(), view=view_of([member()]), book=book, now=NOW + timedelta(minutes=minutes))

    runs = look(job_of(1, activeDeadlineSeconds=600), pod(), view=view_of([member()]))
    twice = runs
    for begins, ends in ((2, 62), (64, 124)):
        twice = then(then(twice, begins, suspend=True), ends, suspend=False)
    assert twice.status is not None
    assert (twice.status.phase, twice.status.suspended_seconds) == ("Running", 7200)
    assert condition(then(twice, 129, suspend=False), "Ready") == ("True", "EnoughWorkers")
    late = then(twice, 130, suspend=False)
    assert condition(late, "Failed") == ("True", "ActiveDeadlineExceeded")
    assert "not counting 7200 s in which it was suspended" in said(late, "Failed")


def test_a_pod_that_its_node_did_not_run_is_no_failure_of_the_script() -> None:
    rejected = pod(running=False, ended=Ended(-1, "UnexpectedAdmissionError"))
    decision = look(job_of(1), rejected)
    assert (decision.book.failures, decision.book.preemptions) == (0, 1)


def test_a_job_that_waits_shows_no_speed() -> None:
    running = look(job_of(), pod(0), pod(1), view=view_of([member(0), member(1)]))
    assert running.status is not None
    assert running.status.samples_per_second
    book = replace(running.book, status=running.status, written=NOW)
    waiting = look(job_of(), view=view_of(), book=book, now=NOW + timedelta(minutes=5))
    assert waiting.status is not None
    assert (waiting.status.phase, waiting.status.samples_per_second, waiting.status.members) == ("Waiting", None, [])


def test_a_pod_of_a_former_template_that_does_not_train_is_replaced_at_once() -> None:
    stuck = pod(template="old", running=False, stuck="ErrImagePull: no such image")
    assert [each.name for each in look(job_of(2), stuck, pod(1, running=False)).delete] == ["job-a-0-0"]


def test_a_pod_that_goes_because_of_the_spec_is_no_preemption_for_a_new_operator_either() -> None:
    scaled, rolled = pod(1, leaving=True), pod(0, template="old", leaving=True)
    assert look(job_of(1), pod(0), scaled).book.preemptions == 0
    assert look(job_of(1), rolled).book.preemptions == 0
    assert look(job_of(1), pod(0, leaving=True)).book.preemptions == 1


def test_a_node_that_rejects_pods_is_not_stormed() -> None:
    rejected = [pod(0, n, running=False, ended=Ended(-1, "OutOfcpu", at=NOW)) for n in range(4)]
    first = look(job_of(1), *rejected)
    then = look(job_of(1), *rejected, book=first.book)
    assert (first.create, then.create, then.again) == ((), (), 8.0)


def test_a_worker_that_was_told_to_go_by_nobody_we_know_comes_back_after_a_pause() -> None:
    decision = look(job_of(1), pod(running=False, ended=Ended(143, at=NOW)))
    assert (decision.create, decision.book.preemptions, decision.again) == ((), 1, 1.0)


def test_a_new_operator_knows_the_speeds_by_the_status() -> None:
    members = [{"worker": f"job-a-{n}", "device": "cpu", "share": 9, "samplesPerSecond": 9 - n, "stepMilliseconds": 1}
               for n in (2, 1, 0)]  # fmt: skip
    job = job_of(3, membership={"maxWorkers": 2}, status={"phase": "Running", "members": members})
    slowest_first = look(job, pod(0), pod(1), pod(2))
    assert [each.name for each in slowest_first.delete] == ["job-a-2-0"]


def test_shares_that_move_a_little_are_written_now_and_then() -> None:
    there = pod(assigned=Assigned(30, 3, 1), authorities="ca")
    view = view_of([member(share=32)])
    assert look(job_of(1), there, view=view, annotated=NOW - timedelta(seconds=1)).annotate == ()
    assert look(job_of(1), there, view=view, annotated=NOW - timedelta(seconds=6)).annotate
    regrouped = view_of([member(share=32)], generation=4)
    assert look(job_of(1), there, view=regrouped, annotated=NOW - timedelta(seconds=1)).annotate


def test_a_share_that_stays_is_not_written_again_for_another_plan() -> None:
    there = pod(assigned=Assigned(32, 3, 1), authorities="ca")
    assert look(job_of(1), there, view=view_of([member(share=32)])).annotate == ()


def test_nothing_has_settled_where_nobody_trains() -> None:
    view = view_of(plan=4, decisions=(decided(100),))
    assert "Converged" not in reasons(look(job_of(1), view=view))


def test_a_group_is_made_before_a_pod_that_names_it_is_tried() -> None:
    decision = look(job_of(1, gangScheduler="native"), checks={})
    assert (bool(decision.check), decision.apply) == (True, True)


# What a rollout must not cost


def rolled(*pods: Pod, view: JobView | None, job: OmniLearnJob | None = None, **known: Any) -> list[str]:
    book = book_of(job or changed_job(3), **{"started": CREATED, "checks": {NEW: Check()}, **known})
    return [each.name for each in look(job or changed_job(3), *pods, view=view, book=book).delete]


def test_pods_that_run_are_kept_while_a_new_coordinator_waits_for_its_workers() -> None:
    for view in (view_of(), None):
        assert rolled(pod(0), pod(1), pod(2), view=view) == []
        assert rolled(pod(0), pod(1), pod(2, running=False), view=view) == ["job-a-2-0"]


def test_pods_that_bear_a_share_are_kept_though_no_status_says_that_the_job_has_begun() -> None:
    bears = pod(0, assigned=Assigned(30, 3, 1))
    assert rolled(bears, pod(1), pod(2), view=view_of(), started=None) == []


def test_before_the_first_step_there_is_nothing_to_lose() -> None:
    everybody = ["job-a-0-0", "job-a-1-0", "job-a-2-0"]
    assert rolled(pod(0), pod(1), pod(2), view=view_of(), started=None) == everybody


def test_a_rollout_leaves_the_workers_that_the_job_needs_and_says_so() -> None:
    job = changed_job(2, membership={"minWorkers": 2})
    both = view_of([member(0), member(1)])
    decision = look(job, pod(0), pod(1), view=both, checks={NEW: Check()})
    assert (decision.delete, condition(decision, "Degraded")) == ((), ("True", "RollingOut"))
    assert "the job needs all 2 workers that train" in said(decision, "Degraded")
    assert rolled(pod(0, running=False), pod(1), view=view_of(), job=job) == ["job-a-0-0"]
    waiting = look(job, pod(1), view=view_of(), started=CREATED, checks={NEW: Check()})
    assert (waiting.delete, "those that run are kept" in said(waiting, "Ready")) == ((), True)


def test_a_worker_that_cannot_be_had_does_not_hold_up_a_rollout() -> None:
    two = view_of([member(0), member(1)])
    unplaced = pod(2, template=NEW, running=False, stuck="Unschedulable: Insufficient cpu")
    assert rolled(pod(0), pod(1), unplaced, view=two) == ["job-a-0-0"]
    assert rolled(pod(0), pod(1), replace(unplaced, stuck=""), view=two) == []


def test_a_template_that_does_not_come_up_costs_one_worker() -> None:
    first = look(changed_job(3), pod(0), pod(1), pod(2), view=view_of(map(member, range(3))), checks={NEW: Check()})
    broken = pod(0, attempt=1, template=NEW, running=False, stuck="ErrImagePull: no such image")
    then = look(changed_job(3), broken, pod(1), pod(2), view=view_of([member(1), member(2)]), book=first.book)
    assert [each.delete for each in (first, then)] == [first.delete[:1], ()]


def test_a_pod_that_was_told_to_go_does_not_count_before_the_watch_says_so() -> None:
    everybody = view_of(map(member, range(3)))
    first = look(changed_job(3), pod(0), pod(1), pod(2), view=everybody, checks={NEW: Check()})
    again = look(changed_job(3), pod(0), pod(1), pod(2), view=everybody, book=first.book)
    comes = pod(0, attempt=1, template=NEW, running=False)
    stale = look(changed_job(3), comes, pod(1), pod(2), view=everybody, book=first.book)
    assert [again.delete, stale.delete] == [first.delete, ()]


def test_a_worker_that_runs_but_does_not_train_goes_before_those_that_do() -> None:
    assert rolled(pod(0), pod(1), pod(2), view=view_of([member(0), member(1)])) == ["job-a-2-0"]


def test_who_is_let_go_by_the_spec_does_not_count_as_left() -> None:
    job = changed_job(3, membership={"minWorkers": 2, "maxWorkers": 2})
    assert len(rolled(pod(0), pod(1), pod(2), view=view_of(map(member, range(3))), job=job)) == 1


def test_a_rollout_is_told_once_with_how_far_it_is() -> None:
    everybody = view_of(map(member, range(3)))
    first = look(changed_job(3), pod(0), pod(1), pod(2), view=everybody, checks={NEW: Check()})
    assert reasons(first) == ["EnoughWorkers", "RollingOut"]
    assert said(first, "Degraded").startswith("3 of 3 pods are of a former template: they are replaced one by one")
    assert first.status is not None
    book = replace(first.book, status=first.status, written=NOW)
    later, comes = NOW + timedelta(seconds=9), pod(0, attempt=1, template=NEW)
    then = look(changed_job(3), comes, pod(1), pod(2), view=view_of([member(1), member(2)]), book=book, now=later)
    assert (reasons(then), said(then, "Degraded")[:8]) == ([], "2 of 3 p")


def test_a_bad_new_template_is_told_while_everybody_trains() -> None:
    both = view_of([member(0), member(1)])
    for check, reason in ((Check(invalid="no such field"), "BadTemplate"), (Check(refused="quota"), "PodRefused")):
        decision = look(changed_job(), pod(0), pod(1), view=both, checks={NEW: check})
        assert (condition(decision, "Ready"), condition(decision, "Degraded")) == (
            ("True", "EnoughWorkers"),
            ("True", reason),
        )
        assert reason in reasons(decision)
        assert "2 of 2 pods are of a former template" in said(decision, "Degraded")


def test_what_was_said_of_a_pod_that_nobody_wants_any_more_is_not_told() -> None:
    decision = look(job_of(1), pod(0), view=view_of([member(0)]), checks={HASH: Check(refused="quota")})
    assert condition(decision, "Degraded") == ("False", "EnoughWorkers")


def test_a_bad_template_of_one_group_does_not_hold_up_another_once_the_job_has_begun() -> None:
    first, bad = job_of(2).spec.workers[0].to_manifest(), changed_job(1).spec.workers[0].to_manifest()
    job = job_of(workers=[first, bad | {"name": "b"}])
    checks = {HASH: Check(), NEW: Check(invalid="no such field")}
    lost = look(job, pod(0), view=view_of([member(0)]), checks=checks, started=CREATED)
    assert [each.name for each in lost.create] == ["job-a-1"]
    assert look(job, pod(0), checks=checks).create == ()
