"""What is decided when a job changes, and when it waits."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from decisions import look
from omnilearn_core.api.job import OmniLearnJob
from omnilearn_operator.book import Check
from omnilearn_operator.manifests.pods import template_hash
from omnilearn_operator.observed import Ended
from operations import NOW, job_of, member, pod, view_of

# A new template


def changed_job(replicas: int = 2) -> OmniLearnJob:
    template = {"spec": {"containers": [{"name": "trainer", "image": "new"}]}}
    return job_of(workers=[{"name": "a", "replicas": replicas, "template": template}])


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
