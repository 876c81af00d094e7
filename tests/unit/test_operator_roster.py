"""Which workers a job should have: whoever is useful stays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from omnilearn_coordinator.view import MemberView
from omnilearn_core.api.job import OmniLearnJob
from omnilearn_core.api.status import MemberStatus
from omnilearn_operator.observed import Pod
from omnilearn_operator.roster import roster, uses_of
from operations import job_of, member, pod


def names(job: OmniLearnJob, *pods: Pod, **uses: float) -> list[str]:
    found = roster(job, pods, {f"job-a-{name[1:]}": use for name, use in uses.items()})
    return [name.removeprefix("job-a-") for name in found]


def most(count: int, replicas: int = 4, **spec: Any) -> OmniLearnJob:
    return job_of(replicas, membership={"maxWorkers": count}, **spec)


def test_who_does_least_goes_when_there_is_one_place_less() -> None:
    assert names(most(3), *map(pod, range(4)), w0=100.0, w1=20.0, w2=300.0, w3=90.0) == ["0", "2", "3"]


def test_of_workers_as_useful_the_newest_goes() -> None:
    pods = (pod(0, 5), pod(1, 0), pod(2, 1))
    assert names(most(2, 3), *pods, w0=10.0, w1=10.0, w2=10.0) == ["1", "2"]


def test_who_does_not_train_yet_goes_before_who_does_least() -> None:
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


def test_a_server_of_its_own_stays_while_there_is_room_for_somebody_who_computes() -> None:
    strategy = {"type": "Asynchronous", "asynchronous": {"serverGroup": "s"}}
    manifest = job_of(3, membership={"maxWorkers": 2}, strategy=strategy).to_manifest()
    manifest["spec"]["workers"].append({**manifest["spec"]["workers"][0], "name": "s", "replicas": 1})
    pods = (pod(0), pod(1), pod(2), pod(0, worker="job-s-0"))
    uses = {"job-a-0": 5.0, "job-a-1": 9.0, "job-a-2": 7.0}
    assert list(roster(OmniLearnJob.from_manifest(manifest), pods, uses)) == ["job-a-1", "job-s-0"]
    manifest["spec"]["membership"]["maxWorkers"] = 1
    assert list(roster(OmniLearnJob.from_manifest(manifest), pods, uses)) == ["job-a-1"]


def least_useful(*members: MemberView, told: Sequence[MemberStatus] = ()) -> str:
    uses = uses_of(told, members)
    return min(uses, key=lambda worker: uses[worker])


def test_a_large_worker_that_was_not_measured_yet_is_more_useful_than_a_small_one_that_was() -> None:
    large, small = member(0, 138, samples_per_second=0.0), member(1, 59, samples_per_second=401.0)
    assert least_useful(large, small) == "job-a-1"


def test_a_small_worker_whose_last_window_was_fast_is_less_useful_than_a_large_one() -> None:
    large, small = member(0, 140, samples_per_second=500.0), member(1, 58, samples_per_second=900.0)
    assert least_useful(large, small) == "job-a-1"


def test_where_all_have_equal_shares_the_slowest_is_the_least_useful() -> None:
    assert least_useful(member(0, 86, samples_per_second=300.0), member(1, 85, samples_per_second=900.0)) == "job-a-0"


def test_who_is_not_measured_after_a_restart_is_as_fast_as_the_status_has_told() -> None:
    told = MemberStatus(worker="job-a-0", device="cpu", share=64, samples_per_second=10.0, step_milliseconds=1.0)
    assert (
        least_useful(member(0, 64, samples_per_second=0.0), member(1, 64, samples_per_second=20.0), told=[told])
        == "job-a-0"
    )


def test_who_has_no_share_is_not_compared() -> None:
    assert uses_of((), [member(0, 0), member(1, 8)]).keys() == {"job-a-1"}


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
