"""Which pods a job should have, and what the end of one counts as."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from omnilearn_core.api.job import OmniLearnJob
from omnilearn_core.api.names import START_ANEW_EXIT
from omnilearn_core.endings import Meaning
from omnilearn_operator.manifests.place import Place
from omnilearn_operator.manifests.pods import Worker, pod_of, template_hash
from omnilearn_operator.observed import Assigned, Ended, Pod, pod_from
from omnilearn_operator.roster import roster
from omnilearn_operator.workforce import Workforce, staff


def job_of(*replicas: int, **spec: Any) -> OmniLearnJob:
    template = {"spec": {"containers": [{"name": "trainer", "image": "i"}]}}
    return OmniLearnJob.from_manifest(
        {
            "apiVersion": "omnilearn.dev/v1alpha1",
            "kind": "OmniLearnJob",
            "metadata": {"name": "job", "namespace": "team", "uid": "u"},
            "spec": {
                "batch": {"global": 64},
                "workers": [{"name": "ab"[i], "replicas": n, "template": template} for i, n in enumerate(replicas)],
                **spec,
            },
        }
    )


JOB = job_of(2)
HASH = template_hash(JOB.spec.workers[0])


def pod(index: int = 0, attempt: int = 0, **changes: Any) -> Pod:
    worker = f"job-a-{index}"
    made = Pod(f"{worker}-{attempt}", f"uid-{index}-{attempt}", worker, attempt, HASH, running=True)
    return replace(made, **changes)


def decide(job: OmniLearnJob, *pods: Pod, **known: Any) -> Workforce:
    known = {"counted": frozenset(), "finished": False, "attempts": {}, **known}
    wanted = {} if known["finished"] else roster(job, pods, known.pop("speeds", {}))
    return staff(job, wanted, pods, **known)


def created(workforce: Workforce) -> list[tuple[str, int, int]]:
    return [(each.worker.group.name, each.worker.index, each.attempt) for each in workforce.create]


def deleted(workforce: Workforce) -> list[str]:
    return [each.name for each in workforce.delete]


# Who is wanted


def test_a_new_job_gets_all_its_workers() -> None:
    assert created(decide(job_of(2, 1))) == [("a", 0, 0), ("a", 1, 0), ("b", 0, 0)]


def test_groups_are_filled_in_order_up_to_the_most_workers() -> None:
    assert list(roster(job_of(2, 2, membership={"maxWorkers": 3}), (), {})) == ["job-a-0", "job-a-1", "job-b-0"]


def test_nothing_is_done_when_everything_is_there() -> None:
    assert decide(JOB, pod(0), pod(1)) == Workforce((), (), ())


def test_a_suspended_job_lets_its_pods_go() -> None:
    workforce = decide(job_of(2, suspend=True), pod(0), pod(1))
    assert (created(workforce), deleted(workforce)) == ([], ["job-a-0-0", "job-a-1-0"])


def test_a_job_that_wants_fewer_workers_lets_the_last_ones_go() -> None:
    assert deleted(decide(job_of(1), pod(0), pod(1))) == ["job-a-1-0"]


def test_a_job_that_has_ended_lets_go_of_what_runs_and_keeps_what_has_ended() -> None:
    workforce = decide(JOB, pod(0, ended=Ended(0)), pod(1), finished=True)
    assert (created(workforce), deleted(workforce)) == ([], ["job-a-1-0"])


# Replacing


@pytest.mark.parametrize("change", [{"ended": Ended(1)}, {"leaving": True}, {"disrupted": "PreemptionByScheduler"}])
def test_a_pod_that_is_over_is_replaced_by_the_next_attempt_without_waiting_for_its_name(
    change: dict[str, Any],
) -> None:
    assert created(decide(JOB, pod(0, 3, **change), pod(1))) == [("a", 0, 4)]


def test_a_number_of_an_attempt_is_never_used_twice() -> None:
    assert created(decide(JOB, pod(1), attempts={"job-a-0": 6})) == [("a", 0, 7)]


def test_an_older_attempt_that_still_runs_has_to_go() -> None:
    assert deleted(decide(JOB, pod(0, 0), pod(0, 1), pod(1))) == ["job-a-0-0"]


def test_a_worker_that_fails_again_and_again_waits_longer_each_time() -> None:
    failing = [pod(0, attempt, ended=Ended(1)) for attempt in range(9)]
    pauses = [decide(JOB, *failing[:count], pod(1)).create[0].after for count in range(1, 10)]
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]


def test_a_worker_that_was_taken_away_comes_back_at_once() -> None:
    pods = [pod(0, 0, ended=Ended(1)), pod(0, 1, disrupted="EvictionByEvictionAPI"), pod(1)]
    assert decide(JOB, *pods).create[0].after == 0.0


def test_pods_of_a_former_template_are_named_with_their_successors() -> None:
    workforce = decide(JOB, pod(0, template="old"), pod(1))
    assert [(goes.name, comes.name, comes.attempt) for goes, comes in workforce.outdated] == [
        ("job-a-0-0", "job-a-0", 1)
    ]
    assert deleted(workforce) == []


# What an ending counts as


@pytest.mark.parametrize(
    ("change", "meaning", "words"),
    [
        ({"ended": Ended(1, "Error")}, Meaning.FAILED, "job-a-0 exited with 1"),
        ({"ended": Ended(137, "OOMKilled")}, Meaning.FAILED, "job-a-0 exited with 137 (OOMKilled)"),
        (
            {"ended": Ended(137, "OOMKilled"), "assigned": Assigned(40, 1, 1)},
            Meaning.OUT_OF_MEMORY,
            "job-a-0 was out of memory: its next attempt computes at most 20 samples at once",
        ),
        ({"ended": Ended(137, "OOMKilled"), "memory_bound": 1}, Meaning.FAILED, "job-a-0 exited with 137 (OOMKilled)"),
        ({"leaving": True, "ended": Ended(1)}, Meaning.PREEMPTED, "job-a-0 was told to go"),
        ({"leaving": True, "ended": Ended(0)}, Meaning.PREEMPTED, "job-a-0 was told to go"),
        ({"ended": Ended(0, "Completed")}, Meaning.FAILED, "job-a-0 ended before the job was complete"),
        ({"ended": Ended(-1, "NodeLost")}, Meaning.PREEMPTED, "job-a-0 was not run: NodeLost"),
        (
            {"ended": Ended(128, "StartError", "failed to create shim task: context canceled: unknown")},
            Meaning.PREEMPTED,
            "job-a-0 was not run: StartError",
        ),
        (
            {"ended": Ended(128, "StartError", 'exec: "trian.py": executable file not found in $PATH')},
            Meaning.FAILED,
            "job-a-0 exited with 128 (StartError)",
        ),
        ({"ended": Ended(143)}, Meaning.PREEMPTED, "job-a-0 was told to go"),
        ({"ended": Ended(START_ANEW_EXIT)}, Meaning.PREEMPTED, "job-a-0 starts anew"),
        ({"leaving": True}, Meaning.PREEMPTED, "job-a-0 was told to go"),
        ({"leaving": True, "ended": Ended(137)}, Meaning.PREEMPTED, "job-a-0 was told to go"),
        (
            {"disrupted": "PreemptionByScheduler", "ended": Ended(137)},
            Meaning.PREEMPTED,
            "job-a-0 was taken away: PreemptionByScheduler",
        ),
    ],
    ids=str,
)
def test_an_ending_is_told_with_what_it_counts_as(change: dict[str, Any], meaning: Meaning, words: str) -> None:
    (ending,) = decide(JOB, pod(0, **change), pod(1)).endings
    assert (ending.meaning, ending.sentence) == (meaning, words)


def test_who_exits_with_0_after_the_end_has_finished() -> None:
    (ending,) = decide(JOB, pod(0, ended=Ended(0)), finished=True).endings
    assert ending.meaning is Meaning.FINISHED


def test_an_ending_is_told_once() -> None:
    assert not decide(JOB, pod(0, ended=Ended(1)), pod(1), counted=frozenset({"uid-0-0"})).endings


# What is seen of a pod


def manifest(state: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    made = pod_of(JOB, Worker(JOB.spec.workers[0], 1), 2, Place("wss://c", "pem"))
    made["metadata"]["uid"] = "uid"
    made["status"] = {"containerStatuses": [{"name": "trainer", "state": state or {}}], **status}
    return made


def test_a_pod_that_we_made_is_recognised() -> None:
    seen = pod_from(manifest({"running": {}}))
    assert seen is not None
    assert seen == Pod("job-a-1-2", "uid", "job-a-1", 2, HASH, running=True, owner="u", authorities=seen.authorities)


def test_a_pod_of_somebody_else_is_not() -> None:
    assert pod_from({"metadata": {"name": "x", "labels": {"app": "x"}}}) is None


def test_only_the_trainer_counts() -> None:
    made = manifest({"running": {}})
    made["spec"]["containers"].append({"name": "sidecar", "image": "s"})
    made["status"]["containerStatuses"].insert(0, {"name": "sidecar", "state": {"terminated": {"exitCode": 1}}})
    seen = pod_from(made)
    assert seen is not None
    assert (seen.running, seen.ended) == (True, None)


def test_the_end_of_a_trainer_is_seen_with_its_last_words() -> None:
    terminated = {"exitCode": 3, "reason": "Error", "message": "x" * 5000, "finishedAt": "2026-11-16T10:00:00Z"}
    seen = pod_from(manifest({"terminated": terminated}))
    assert seen is not None
    assert seen.ended is not None
    assert (seen.ended.code, len(seen.ended.message)) == (3, 2000)
    assert seen.ended.at is not None


@pytest.mark.parametrize(
    ("state", "status", "why"),
    [
        ({"waiting": {"reason": "ErrImagePull", "message": "no such image"}}, {}, "ErrImagePull: no such image"),
        ({"waiting": {"reason": "ContainerCreating"}}, {}, ""),
        (
            {},
            {
                "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
                ]
            },
            "Unschedulable: 0/3 nodes",
        ),
    ],
    ids=str,
)
def test_why_a_pod_does_not_run_is_seen_in_the_clusters_words(
    state: dict[str, Any], status: dict[str, Any], why: str
) -> None:
    seen = pod_from(manifest(state, **status))
    assert seen is not None
    assert seen.stuck == why


def test_a_pod_that_is_taken_away_is_seen_before_it_ends() -> None:
    conditions = [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]
    seen = pod_from(manifest({"running": {}}, conditions=conditions))
    assert seen is not None
    assert (seen.disrupted, seen.over) == ("EvictionByEvictionAPI", True)


def test_a_pod_that_failed_as_a_whole_has_ended() -> None:
    seen = pod_from(manifest(None, phase="Failed", reason="Evicted", message="low on memory"))
    assert seen is not None
    assert seen.ended == Ended(-1, "Evicted", "low on memory")


def test_of_a_worker_the_newest_ended_pods_stay_and_its_pause_stays_the_longest() -> None:
    ended = [pod(0, attempt, running=False, alive=False, ended=Ended(143)) for attempt in range(10)]
    counted = frozenset(each.uid for each in ended)
    work = decide(JOB, *ended, pod(1), counted=counted)
    assert deleted(work) == ["job-a-0-0", "job-a-0-1", "job-a-0-2"]
    assert decide(JOB, *ended[3:], pod(1), counted=counted).create[0].after == 60.0
    assert deleted(decide(JOB, *ended, pod(1), counted=counted - {"uid-0-1"})) == ["job-a-0-0", "job-a-0-2"]


def test_ended_pods_of_a_worker_that_is_not_wanted_any_more_are_not_kept_without_a_limit_either() -> None:
    ended = [pod(5, attempt, running=False, ended=Ended(143)) for attempt in range(8)]
    assert deleted(decide(JOB, *ended, counted=frozenset(each.uid for each in ended))) == ["job-a-5-0"]
