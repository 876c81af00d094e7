"""Which workers a job should have: whoever is useful stays."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from omnilearn_core.api.job import OmniLearnJob
from omnilearn_operator.observed import Pod
from omnilearn_operator.roster import roster
from operations import job_of, pod


def names(job: OmniLearnJob, *pods: Pod, **speeds: float) -> list[str]:
    found = roster(job, pods, {f"job-a-{name[1:]}": speed for name, speed in speeds.items()})
    return [name.removeprefix("job-a-") for name in found]


def most(count: int, replicas: int = 4, **spec: Any) -> OmniLearnJob:
    return job_of(replicas, membership={"maxWorkers": count}, **spec)


def test_the_slowest_worker_goes_when_there_is_one_place_less() -> None:
    assert names(most(3), *map(pod, range(4)), w0=100.0, w1=20.0, w2=300.0, w3=90.0) == ["0", "2", "3"]


def test_of_workers_as_fast_the_newest_goes() -> None:
    pods = (pod(0, 5), pod(1, 0), pod(2, 1))
    assert names(most(2, 3), *pods, w0=10.0, w1=10.0, w2=10.0) == ["1", "2"]


def test_who_does_not_train_yet_goes_before_the_slowest() -> None:
    waiting, running = pod(0, running=False), pod(1)
    assert names(most(2, 3), waiting, running, pod(2), w2=1.0) == ["1", "2"]


def test_who_is_there_stays_whatever_its_number() -> None:
    assert names(most(2), pod(2), pod(3), w2=5.0, w3=4.0) == ["2", "3"]


def test_a_worker_that_ended_is_tried_again_before_another_one_is_begun() -> None:
    assert names(most(2), pod(0), pod(3, leaving=True)) == ["0", "3"]


def test_a_group_keeps_its_best_workers_when_it_is_made_smaller() -> None:
    assert names(job_of(2), *map(pod, range(3)), w0=1.0, w1=2.0, w2=3.0) == ["1", "2"]


def test_a_group_keeps_what_it_needs_at_least() -> None:
    manifest = job_of(2, membership={"maxWorkers": 2}).to_manifest()
    group = manifest["spec"]["workers"][0]
    manifest["spec"]["workers"].append({**group, "name": "b", "replicas": 1, "minReplicas": 1})
    job = OmniLearnJob.from_manifest(manifest)
    assert list(roster(job, (pod(0), pod(1)), {"job-a-0": 2.0, "job-a-1": 1.0})) == ["job-a-0", "job-b-0"]


@given(
    st.integers(1, 6),
    st.integers(1, 6),
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 3), st.booleans(), st.booleans()), max_size=12),
)
def test_there_are_never_more_than_wanted_and_never_fewer(
    replicas: int, places: int, there: list[tuple[int, int, bool, bool]]
) -> None:
    pods = [pod(index, attempt, running=run, leaving=goes) for index, attempt, run, goes in there]
    job = job_of(replicas, membership={"maxWorkers": min(places, replicas)})
    found = roster(job, pods, {each.worker: float(each.attempt) for each in pods if each.running and not each.over})
    assert len(found) == min(places, replicas)
    again = [each for each in pods if each.worker in found]
    assert set(roster(job, again, {})) == set(found) or any(each.over for each in again)
