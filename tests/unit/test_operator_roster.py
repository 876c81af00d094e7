"""Which workers a job should have: whoever is useful stays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decisions import look
from omnilearn_coordinator.view import MemberState, MemberView
from omnilearn_core.api.job import OmniLearnJob
from omnilearn_core.api.status import MemberStatus
from omnilearn_operator.observed import Pod
from omnilearn_operator.roster import roster, uses_of
from operations import job_of, member, pod, view_of


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


def least_useful(*members: MemberView, told: Sequence[MemberStatus] = (), **spec: Any) -> str:
    uses = uses_of(job_of(**spec), told, members)
    return min(uses, key=lambda worker: uses[worker])


def test_a_large_worker_that_was_not_measured_yet_is_more_useful_than_a_small_one_that_was() -> None:
    large, small = member(0, 138, samples_per_second=0.0), member(1, 59, samples_per_second=401.0)
    assert least_useful(large, small) == "job-a-1"


def test_a_small_worker_whose_last_window_was_fast_is_less_useful_than_a_large_one() -> None:
    large, small = member(0, 140, samples_per_second=500.0), member(1, 58, samples_per_second=900.0)
    assert least_useful(large, small) == "job-a-1"


@pytest.mark.parametrize(
    "spec",
    [
        {"batch": {"global": 64, "law": "Uniform"}},
        {"strategy": {"type": "LocalSGD", "localSGD": {"steps": "Fixed", "batch": 32}}},
    ],
)
def test_where_the_law_gives_equal_shares_the_slowest_is_the_least_useful_however_they_are_rounded(
    spec: dict[str, Any],
) -> None:
    slow, fast = member(0, 64, samples_per_second=100.0), member(1, 32, samples_per_second=190.0)
    assert least_useful(slow, fast, **spec) == "job-a-0"


def test_who_is_not_measured_after_a_restart_is_as_fast_as_the_status_has_told() -> None:
    told = MemberStatus(worker="job-a-0", device="cpu", share=64, samples_per_second=10.0, step_milliseconds=1.0)
    assert (
        least_useful(member(0, 64, samples_per_second=0.0), member(1, 64, samples_per_second=20.0), told=[told])
        == "job-a-0"
    )


def test_a_member_without_a_share_is_the_least_useful_one() -> None:
    assert least_useful(member(0, 0, samples_per_second=0.0), member(1, 8)) == "job-a-0"


def test_a_member_that_has_not_entered_yet_does_not_train() -> None:
    assert uses_of(job_of(), (), [member(0), member(1, state=MemberState.BUILDING)]).keys() == {"job-a-0"}


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3)), min_size=1, max_size=3),
    st.integers(1, 9),
    st.sampled_from([None, 0, 1, 2]),
)
def test_a_job_without_pods_wants_those_that_it_begins_with(
    sizes: list[tuple[int, int]], places: int, server: int | None
) -> None:
    manifest = job_of().to_manifest()
    spec = manifest["spec"]
    sizes = [(1, min(needed, 1)) if number == server else (size, needed) for number, (size, needed) in enumerate(sizes)]
    spec["workers"] = [
        {**spec["workers"][0], "name": f"g{number}", "replicas": size, "minReplicas": min(needed, size)}
        for number, (size, needed) in enumerate(sizes)
    ]
    least = max(1, sum(min(each) for each in sizes))
    most = max(least, min(places, sum(size for size, _ in sizes)))
    spec["membership"] = {"maxWorkers": most}
    if server is not None and len(sizes) > max(server, 1):
        spec["strategy"] = {"type": "Asynchronous", "asynchronous": {"serverGroup": f"g{server}"}}
    job = OmniLearnJob.from_manifest(manifest)
    begins = [f"job-{group.name}-{index}" for group, index in job.spec.first_workers()]
    assert list(roster(job, (), {})) == begins
    assert len(begins) == most


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


def test_nobody_else_goes_while_the_pod_that_was_let_go_is_not_seen_to_leave() -> None:
    pods = (pod(0), pod(1), pod(2))
    speeds = [member(number, samples_per_second=speed) for number, speed in enumerate((30.0, 10.0, 20.0))]
    first = look(most(2, 3), *pods, view=view_of(speeds))
    assert [each.name for each in first.delete] == ["job-a-1-0"]
    others = [member(number, samples_per_second=speed) for number, speed in enumerate((30.0, 20.0, 10.0))]
    second = look(most(2, 3), *pods, view=view_of(others), book=first.book)
    assert [each.name for each in second.delete] == ["job-a-1-0"]
