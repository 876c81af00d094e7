"""What a job's conditions say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from omnilearn_core.api.job import OmniLearnJob
from omnilearn_core.api.names import ConditionType, Reason
from omnilearn_core.api.status import Phase
from omnilearn_operator.conditions import Fact, Standing, facts_of, phase_of, with_times
from omnilearn_operator.observed import Ended, Pod

THEN = datetime(2026, 11, 16, 10, 0, tzinfo=UTC)
NOW = THEN + timedelta(seconds=60)


def job_of(status: dict[str, Any] | None = None, **spec: Any) -> OmniLearnJob:
    template = {"spec": {"containers": [{"name": "trainer", "image": "i"}]}}
    manifest = {
        "apiVersion": "omnilearn.dev/v1alpha1",
        "kind": "OmniLearnJob",
        "metadata": {"name": "job"},
        "spec": {
            "batch": {"global": 64},
            "workers": [{"name": "a", "replicas": 3, "template": template}],
            "membership": {"minWorkers": 2},
            **spec,
        },
    }
    return OmniLearnJob.from_manifest(manifest | ({"status": status} if status else {}))


def standing(**known: Any) -> Standing:
    return Standing(**{"now": NOW, "since": THEN, **known})


def stuck(index: int, why: str) -> Pod:
    return Pod(f"job-a-{index}-0", "u", f"job-a-{index}", 0, "h", stuck=why)


@pytest.mark.parametrize(
    ("spec", "known", "kind", "holds", "reason", "words"),
    [
        ({}, {"members": 3}, "Ready", True, "EnoughWorkers", "3 workers train"),
        ({}, {"members": 1}, "Ready", False, "WaitingForWorkers", "1 of the 2 workers that are needed train"),
        ({}, {"members": 3}, "Degraded", False, "EnoughWorkers", ""),
        ({}, {"members": 2}, "Degraded", True, "FewerWorkersThanWanted", "2 of the 3 workers that are wanted train"),
        (
            {},
            {"members": 2, "pods": (stuck(2, "ErrImagePull: no such image"),)},
            "Degraded",
            True,
            "FewerWorkersThanWanted",
            "2 of the 3 workers that are wanted train; job-a-2-0: ErrImagePull: no such image",
        ),
        ({}, {"bad_template": "x"}, "Ready", False, "BadTemplate", "the API server does not take the pod: x"),
        ({}, {"refused": "quota"}, "Ready", False, "PodRefused", "the API server does not take the pod now: quota"),
        ({"suspend": True}, {}, "Suspended", True, "SuspendedByUser", "spec.suspend is true: set it to false to go on"),
        ({}, {"complete": "all"}, "Complete", True, "AllSamplesCommitted", "all"),
        ({}, {"failed": "job-a-0: ValueError"}, "Failed", True, "ScriptFailed", "job-a-0: ValueError"),
        (
            {"restart": {"maxFailures": 1}},
            {"failures": 2, "last_failure": "job-a-1 exited with 3"},
            "Failed",
            True,
            "TooManyFailures",
            "2 failures of workers are more than restart.maxFailures, 1; the last: job-a-1 exited with 3",
        ),
        (
            {"startupDeadlineSeconds": 60},
            {"pods": (stuck(0, "Unschedulable: 0/3 nodes"),)},
            "Failed",
            True,
            "StartupDeadlineExceeded",
            "fewer than 2 workers were there within 60 s (startupDeadlineSeconds); job-a-0-0: Unschedulable: 0/3 nodes",
        ),
        (
            {"activeDeadlineSeconds": 30},
            {"started": THEN, "members": 3},
            "Failed",
            True,
            "ActiveDeadlineExceeded",
            "the job was not complete 30 s after its first step (activeDeadlineSeconds)",
        ),
    ],
    ids=str,
)
def test_a_condition_says_what_is_so_and_why(
    spec: dict[str, Any], known: dict[str, Any], kind: str, holds: bool, reason: str, words: str
) -> None:
    assert facts_of(job_of(**spec), standing(**known))[ConditionType(kind)] == Fact(holds, Reason(reason), words)


def test_many_pods_that_do_not_come_are_named_by_a_few() -> None:
    pods = tuple(stuck(index, "ErrImagePull") for index in range(5))
    assert facts_of(job_of(), standing(pods=pods))[ConditionType.READY].message.endswith("ErrImagePull and 2 more")


def test_pods_that_have_ended_are_not_waited_for() -> None:
    pods = (Pod("p", "u", "w", 0, "h", stuck="CrashLoopBackOff", ended=Ended(1)),)
    assert "CrashLoop" not in facts_of(job_of(), standing(pods=pods))[ConditionType.READY].message


@pytest.mark.parametrize("known", [{"members": 3}, {"failures": 99}, {"failed": "x"}])
def test_an_end_is_for_good(known: dict[str, Any]) -> None:
    ended = {"type": "Complete", "status": "True", "reason": "AllSamplesCommitted", "message": "all"}
    job = job_of({"conditions": [ended | {"lastTransitionTime": "2026-11-16T09:00:00Z"}]})
    facts = facts_of(job, standing(**known))
    assert facts[ConditionType.COMPLETE] == Fact(True, Reason.ALL_SAMPLES_COMMITTED, "all")
    assert not facts[ConditionType.READY].holds


def test_a_suspended_job_misses_no_deadline() -> None:
    job = job_of(suspend=True, startupDeadlineSeconds=1, activeDeadlineSeconds=1)
    assert ConditionType.FAILED not in facts_of(job, standing(started=THEN))


def test_a_job_that_goes_on_is_no_longer_suspended() -> None:
    suspended = {"type": "Suspended", "status": "True", "reason": "SuspendedByUser"}
    job = job_of({"conditions": [suspended | {"lastTransitionTime": "2026-11-16T09:00:00Z"}]})
    assert not facts_of(job, standing(members=3))[ConditionType.SUSPENDED].holds


@pytest.mark.parametrize(
    ("spec", "known", "phase"),
    [
        ({}, {}, Phase.PENDING),
        ({}, {"members": 2, "started": THEN}, Phase.RUNNING),
        ({}, {"members": 1, "started": THEN}, Phase.WAITING),
        ({"suspend": True}, {}, Phase.SUSPENDED),
        ({}, {"complete": "all"}, Phase.COMPLETE),
        ({}, {"failed": "x"}, Phase.FAILED),
    ],
    ids=str,
)
def test_the_phase_is_the_conditions_in_one_word(spec: dict[str, Any], known: dict[str, Any], phase: Phase) -> None:
    now = standing(**known)
    assert phase_of(facts_of(job_of(**spec), now), started=now.started is not None) is phase


def test_since_when_stays_until_the_answer_changes() -> None:
    first = with_times({ConditionType.READY: Fact(False, Reason.WAITING_FOR_WORKERS)}, [], 1, THEN)
    same = with_times({ConditionType.READY: Fact(False, Reason.POD_REFUSED, "quota")}, first, 2, NOW)
    changed = with_times({ConditionType.READY: Fact(True, Reason.ENOUGH_WORKERS)}, same, 2, NOW)
    assert [each[0].last_transition_time for each in (first, same, changed)] == [THEN, THEN, NOW]
    assert (same[0].reason, same[0].message, same[0].observed_generation) == ("PodRefused", "quota", 2)
