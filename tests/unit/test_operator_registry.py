"""What the operator knows of jobs and pods, whatever order the news comes in."""

from __future__ import annotations

from typing import Any

from omnilearn_core.api import names
from omnilearn_operator.registry import Key, Registry, Scope
from operations import job_of

KEY = Key("team", "job")


def pod(version: int = 1, uid: str = "pod-uid", *, running: bool = True) -> dict[str, Any]:
    labels = {names.JOB_LABEL: "job", names.WORKER_LABEL: "job-a-0", names.ATTEMPT_LABEL: "0"}
    state = {"running": {}} if running else {"terminated": {"exitCode": 1}}
    return {
        "metadata": {
            "name": "job-a-0-0",
            "namespace": "team",
            "uid": uid,
            "resourceVersion": str(version),
            "labels": labels,
            "ownerReferences": [{"uid": "job-uid", "controller": True}],
        },
        "spec": {"containers": [{"name": "trainer"}]},
        "status": {"containerStatuses": [{"name": "trainer", "state": state}]},
    }


def registry() -> Registry:
    made = Registry()
    made.see_job(job_of().to_manifest())
    return made


def test_an_answer_to_an_own_write_does_not_undo_newer_news() -> None:
    known = registry()
    known.see_pod(pod(5, running=False))
    known.see_pod(pod(4))
    assert [each.running for each in known.pods(KEY)] == [False]


def test_a_pod_that_is_gone_stays_until_its_end_was_counted() -> None:
    known = registry()
    known.see_pod(pod(5))
    known.see_pod(pod(6), gone=True)
    assert [(each.gone, each.over) for each in known.pods(KEY)] == [(True, True)]
    assert known.pod(KEY, "pod-uid") is None
    known.forget(KEY, ["pod-uid"])
    assert known.pods(KEY) == ()


def test_a_pod_that_is_gone_does_not_come_back_by_late_news() -> None:
    known = registry()
    known.see_pod(pod(6), gone=True)
    known.see_pod(pod(7))
    assert [each.gone for each in known.pods(KEY)] == [True]


def test_a_pod_that_is_missing_in_a_list_is_gone() -> None:
    known = registry()
    known.see_pod(pod(5))
    known.lose(Scope("Pod", ""), set(), "9")
    assert [each.gone for each in known.pods(KEY)] == [True]


def test_a_pod_that_is_newer_than_a_list_is_not_gone() -> None:
    known = registry()
    known.see_pod(pod(10))
    known.lose(Scope("Pod", ""), set(), "9")
    assert [each.gone for each in known.pods(KEY)] == [False]


def test_the_end_of_an_earlier_job_of_that_name_does_not_end_its_successor() -> None:
    known = registry()
    earlier = job_of().to_manifest()
    earlier["metadata"]["uid"] = "earlier"
    known.see_job(earlier, gone=True)
    assert KEY in known.jobs


def test_an_older_version_of_a_job_does_not_undo_a_newer_one() -> None:
    known = Registry()
    for version, replicas in (("9", 3), ("10", 1), ("8", 2)):
        manifest = job_of(replicas).to_manifest()
        manifest["metadata"]["resourceVersion"] = version
        known.see_job(manifest)
    assert known.jobs[KEY].spec.wanted == 1


def test_of_a_status_that_a_newer_version_has_written_everything_is_read_but_what_is_new() -> None:
    known = Registry()
    workers = {"desired": 2, "ready": 0, "members": 0, "preemptions": 3, "failures": 1, "summary": "0/2", "tired": 1}
    manifest = job_of().to_manifest() | {"status": {"flavour": "vanilla", "workers": workers, "attempts": {"a": 4}}}
    known.see_job(manifest)
    status = known.jobs[KEY].status
    assert status is not None
    assert status.workers is not None
    assert (status.workers.preemptions, status.workers.failures, status.attempts) == (3, 1, {"a": 4})


def test_a_job_whose_status_makes_no_sense_is_read_without_it() -> None:
    known = Registry()
    known.see_job(job_of().to_manifest() | {"status": {"step": "many"}})
    assert known.jobs[KEY].status is None


def test_a_job_that_cannot_be_read_is_remembered_as_such() -> None:
    known = Registry()
    manifest = job_of().to_manifest()
    manifest["spec"]["flavour"] = "vanilla"
    known.see_job(manifest)
    assert (KEY in known.jobs, KEY in known.unreadable) == (False, True)


def test_a_job_that_is_gone_does_not_come_back_by_a_late_answer_but_another_of_its_name_does() -> None:
    known, manifest = registry(), job_of().to_manifest()
    known.see_job(manifest, gone=True)
    known.see_job(manifest)
    assert KEY not in known.jobs
    known.see_job(manifest | {"metadata": manifest["metadata"] | {"uid": "another"}})
    assert KEY in known.jobs
