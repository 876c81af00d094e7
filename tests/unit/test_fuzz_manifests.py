"""Jobs and pods as a watch could deliver them, however wild: no error, a line in the log, and other jobs go on."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from manifests import GOOD, Manifest
from mutations import near
from omnilearn_core.api.job import OmniLearnJob
from omnilearn_operator.book import opened
from omnilearn_operator.reconcile import decide
from omnilearn_operator.registry import Key, Registry
from omnilearn_operator.status import Seen, patch_of
from operations import NOW, job_of, member, view_of
from situations import times
from wild_pods import POD, PODS

KEY, OTHER = Key("team", "job"), Key("team", "other")
_MOMENTS = ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-11-16T10:00:00", "2026-11-16T10:00:00+14:00")

STATUS: Manifest = {
    "phase": "Running",
    "conditions": [
        {"type": "Ready", "status": "True", "reason": "Training", "message": "m", "lastTransitionTime": _MOMENTS[0]},
        {"type": "Complete", "status": "False", "reason": "No", "lastTransitionTime": "2026-11-16T10:00:00Z"},
    ],
    "observedGeneration": 1, "startTime": "2026-11-16T10:00:00Z", "completionTime": "2026-11-16T10:00:59Z",
    "generation": 3, "step": 7, "epoch": 1, "progressPercent": 44, "samplesPerSecond": 100.0, "imbalancePercent": 5,
    "estimatedCompletion": "2026-11-16T11:00:00Z", "attempts": {"job-a-0": 1}, "selector": "omnilearn.dev/job=job",
    "workers": {"desired": 2, "ready": 2, "members": 2, "preemptions": 1, "failures": 1, "summary": "2/2"},
    "members": [{"worker": "job-a-0", "device": "cpu", "share": 32, "samplesPerSecond": 50.0, "stepMilliseconds": 600}],
    "decisions": [{"time": "2026-11-16T10:00:00Z", "why": "w"}], "logged": {"accuracy": 0.5},
}  # fmt: skip


def registry() -> Registry:
    """Return what is known of another job, which nothing here is about."""
    made = Registry()
    manifest = job_of().to_manifest()
    manifest["metadata"] |= {"name": OTHER.name, "uid": "other-uid"}
    made.see_job(manifest)
    return made


def delivered(manifest: Manifest) -> Manifest:
    """Return a manifest with what the API server always sees to."""
    made = copy.deepcopy(manifest)
    metadata = made["metadata"] if isinstance(made.get("metadata"), dict) else {}
    made["metadata"] = metadata | {"name": KEY.name, "namespace": KEY.namespace, "uid": "job-uid"}
    return made


def decided(job: OmniLearnJob, known: Registry) -> None:
    """Decide about a job some times over, as the loop would; what is to be written must be writable."""
    book = opened(job, NOW)
    views = (None, view_of([member(0), member(1)]), view_of())
    for turn, seconds in enumerate((0, 1, 30, 400, 10**6)):
        now = NOW + timedelta(seconds=seconds)
        decision = decide(Seen(job, known.pods(KEY), views[turn % len(views)], now), book, "ca")
        book = decision.book
        if decision.status is not None:
            json.dumps(patch_of(book.status, decision.status), allow_nan=False)
            json.dumps(patch_of(None, decision.status), allow_nan=False)
            book = replace(book, status=decision.status, written=now)


def deliver(manifests: Iterable[Manifest], pods: Iterable[Manifest] = ()) -> tuple[int, int]:
    """Take in jobs, each with some pods; return how many could be read, and how many could not."""
    read = unread = 0
    for manifest in manifests:
        known = registry()
        assert known.see_job(manifest) == KEY
        assert (KEY in known.jobs) != (KEY in known.unreadable)
        assert OTHER in known.jobs
        for pod in pods:
            known.see_pod(pod)
        if (job := known.jobs.get(KEY)) is None:
            unread += 1
            continue
        read += 1
        decided(job, known)
    return read, unread


def test_jobs_near_good_ones_are_read_and_decided_about_or_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    good = [GOOD[name] | {"status": STATUS} for name in sorted(GOOD)]
    read, unread = deliver(map(delivered, near(good, 11, times(120))), [POD])
    assert min(read, unread) > 20
    assert sum("cannot be read" in each.getMessage() for each in caplog.records) >= unread
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


def test_a_wild_status_is_taken_as_it_is_or_read_without() -> None:
    job = job_of(ttlSecondsAfterFinished=60).to_manifest()
    wild = [delivered(job | {"status": status}) for status in near([STATUS], 12, times(120))]
    read, unread = deliver(wild, [POD])
    assert (read, unread) == (len(wild), 0)


@pytest.mark.parametrize("moment", _MOMENTS)
@pytest.mark.parametrize("ended", ["Complete", "Failed", ""])
def test_a_status_may_have_any_time(moment: str, ended: str) -> None:
    status: dict[str, Any] = copy.deepcopy(STATUS) | {"startTime": moment, "completionTime": moment}
    for condition in status["conditions"]:
        condition |= {"lastTransitionTime": moment, "status": "True" if condition["type"] == ended else "False"}
    job = job_of(ttlSecondsAfterFinished=60, startupDeadlineSeconds=60, activeDeadlineSeconds=60).to_manifest()
    assert deliver([delivered(job | {"status": status})], [POD]) == (1, 0)


@pytest.mark.parametrize(
    "change",
    [
        {"attempts": {"job-a-0": 2**62}},
        {"attempts": {f"job-b-{k}": 1 for k in range(16384)}},
        {"step": 2**62},
        {"logged": {"": 1e308}},
    ],
    ids=["an attempt", "attempts of others", "a step", "a logged value"],
)
def test_a_status_may_have_any_number(change: Manifest) -> None:
    assert deliver([delivered(job_of().to_manifest() | {"status": STATUS | change})], [POD]) == (1, 0)


def test_pods_near_real_ones_are_read_or_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    job = delivered(job_of().to_manifest())
    for wild in near([POD], 13, times(250)):
        deliver([job], [wild])
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


@pytest.mark.parametrize("name", sorted(PODS))
def test_a_pod_as_nobody_should_make_it_harms_nobody(name: str) -> None:
    job = delivered(job_of(ttlSecondsAfterFinished=60).to_manifest())
    assert deliver([job], [PODS[name]]) == (1, 0)
    assert deliver([job], [POD, PODS[name]]) == (1, 0)


def test_a_pod_that_cannot_be_read_is_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    assert registry().see_pod(PODS["a status of null"]) is None
    assert "a pod cannot be read: team/job-a-0-0" in caplog.text


def test_a_pod_of_another_job_counts_for_neither() -> None:
    known = registry()
    known.see_job(job_of().to_manifest())
    known.see_pod(PODS["a label of another job"])
    assert (known.pods(KEY), known.pods(OTHER)) == ((), ())


def test_pods_of_jobs_that_are_gone_are_forgotten() -> None:
    known = registry()
    known.see_job(job_of().to_manifest())
    known.see_pod(POD)
    known.see_job(job_of().to_manifest(), gone=True)
    known.see_pod(POD, gone=True)
    known.forget(KEY)
    assert known._pods == {}


def test_times_without_a_zone_are_meant_as_utc() -> None:
    job = OmniLearnJob.from_manifest(job_of().to_manifest() | {"status": {"startTime": "2026-11-16T10:00:00"}})
    assert job.status is not None
    assert job.status.start_time == datetime(2026, 11, 16, 10, tzinfo=UTC)
