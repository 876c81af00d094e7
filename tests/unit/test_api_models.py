"""Wire messages, quantities, names and null: what the models take, give back and refuse."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from manifests import GOOD, Manifest, changed, container, group, manifest
from omnilearn_core.api import names
from omnilearn_core.api.base import ApiModel
from omnilearn_core.api.job import Batch, LawName, OmniLearnJob
from omnilearn_core.api.messages import Assignment, Change, GenerationId, Join, MemberAddress, Plan, Reply, WorkerReport
from omnilearn_core.api.quantities import parse_quantity
from omnilearn_core.api.status import JobStatus
from omnilearn_core.api.strategy import StrategyType
from omnilearn_core.api.validate import problems_of
from omnilearn_core.control.laws import DEFAULT, LAWS

GENERATION = GenerationId(number=3, nonce="n0")
PLAN = Plan(generation=GENERATION, version=1, global_batch=64, shares={"job-a-0": 40, "job-b-0": 24})
REPORT = WorkerReport(
    worker="job-a-0",
    generation=GENERATION,
    plan_version=1,
    step=10,
    share=40,
    steps=5,
    compute_seconds=0.2,
    wait_seconds=0.1,
)
JOIN = Join(device="cpu", address="10.0.0.1", port=7000)
MESSAGES: list[ApiModel] = [
    PLAN,
    JOIN,
    JOIN.model_copy(update={"cpu_quota": 1.5, "round": 7, "generation": GENERATION}),
    REPORT,
    REPORT.model_copy(update={"loss": -0.5, "memory_bound": 32}),
    Assignment(
        term=1,
        generation=GENERATION,
        change=Change.PLANNED,
        members=[MemberAddress(worker="job-a-0", attempt=0, device="cpu", address="a", port=7000)],
        plan=PLAN,
    ),
    Reply(term=1, generation=GENERATION, plan=None, report_seconds=0.5),
]


def with_field(message: ApiModel, field: str, value: Any) -> str:
    return json.dumps({**message.to_manifest(), field: value})


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_survives_json(message: ApiModel) -> None:
    assert type(message).from_manifest(json.loads(json.dumps(message.to_manifest()))) == message


@settings(deadline=None)  # a slow machine is no failure
@given(st.dictionaries(st.sampled_from([f"job-a-{index}" for index in range(8)]), st.integers(0, 10**6), min_size=1))
def test_a_plan_is_good_exactly_if_its_shares_sum_to_the_global_batch(shares: dict[str, int]) -> None:
    total = sum(shares.values())
    if total:
        plan = Plan(generation=GENERATION, version=0, global_batch=total, shares=shares)
        assert sum(plan.shares.values()) == plan.global_batch
    with pytest.raises(ValidationError, match=f"shares and tail sum to {total}, not to the global batch {total + 1}"):
        Plan(generation=GENERATION, version=0, global_batch=total + 1, shares=shares)


def test_a_plan_without_members_is_refused() -> None:
    with pytest.raises(ValidationError, match="shares"):
        Plan.model_validate_json(with_field(PLAN, "shares", {}))


@pytest.mark.parametrize("share", [-1, 16777217, 1.5, "40", True, None])
def test_a_share_that_is_no_number_of_samples_is_refused(share: Any) -> None:
    with pytest.raises(ValidationError):
        Plan.model_validate_json(with_field(PLAN, "shares", {"job-a-0": share, "job-b-0": 24}))


@pytest.mark.parametrize("field", ["computeSeconds", "waitSeconds", "loss", "cpuQuota"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_report_with_a_number_that_is_none_is_refused(field: str, value: float) -> None:
    with pytest.raises(ValidationError, match="finite number"):
        WorkerReport.model_validate_json(with_field(REPORT, field, value))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("computeSeconds", 1e10),
        ("computeSeconds", -0.1),
        ("cpuQuota", 0),
        ("cpuQuota", 1e6),
        ("step", 2**53 + 1),
        ("step", 10**400),
        ("steps", -1),
        ("steps", 1000001),
        ("worker", ""),
        ("worker", "w" * 64),
        ("share", 16777217),
        ("generation", {"number": 1, "nonce": "n" * 65}),
        ("generation", {"number": -1, "nonce": "n"}),
    ],
)
def test_a_report_out_of_bounds_is_refused(field: str, value: Any) -> None:
    with pytest.raises(ValidationError):
        WorkerReport.model_validate_json(with_field(REPORT, field, value))


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_with_an_unknown_field_is_refused(message: ApiModel) -> None:
    with pytest.raises(ValidationError, match="surprise"):
        type(message).model_validate_json(with_field(message, "surprise", 1))


def test_a_message_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        setattr(PLAN, "version", 2)  # noqa: B010 - mypy would refuse the assignment, which is the point


@settings(deadline=None)  # a slow machine is no failure
@given(st.integers(-(10**9), 10**9))
def test_a_quantity_is_its_number_times_its_suffix(number: int) -> None:
    assert parse_quantity(number) == parse_quantity(str(number)) == number
    assert parse_quantity(f"{number}m") == pytest.approx(number / 1000)
    assert parse_quantity(f"{number}k") == parse_quantity(f"{number}e3") == number * 1000
    assert parse_quantity(f"{number}Ki") == number * 1024
    assert parse_quantity(f"{number}.5Gi") == pytest.approx(float(f"{number}.5") * 2**30)


@settings(deadline=None)  # a slow machine is no failure
@given(st.text())
def test_a_text_is_a_finite_quantity_or_refused_with_a_sentence(text: str) -> None:
    try:
        assert math.isfinite(parse_quantity(text))
    except ValueError as error:
        assert str(error) == f"{text!r} is no quantity: write a number such as 2, 0.5, 500m or 4Gi"  # noqa: PT017


@pytest.mark.parametrize(
    "text",
    ["", "m", "two", "1 Gi", " 1", "1K", "1kb", "1e", "1e400", "1e-400", "9" * 400, "٣", "0x10", "1_000", "--1", "nan"],
)
def test_a_text_that_kubernetes_would_not_take_is_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="is no quantity"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "number"), [("1E", 1e18), ("1E3", 1e3), (".5", 0.5), ("5.", 5), ("+1e-3", 0.001), ("1n", 1e-9)]
)
def test_a_quantity_may_be_written_in_many_ways(text: str, number: float) -> None:
    assert parse_quantity(text) == pytest.approx(number)


def test_the_cpu_limit_is_that_of_the_trainer() -> None:
    trainer = container(resources={"limits": {"cpu": "1500m"}})
    job = OmniLearnJob.from_manifest(manifest(workers=[group("a", container("log"), trainer), group("b")]))
    assert [worker.template.spec.cpu_limit for worker in job.spec.workers] == [1.5, None]


def test_null_takes_the_default_in_json() -> None:
    assert Batch.model_validate_json('{"global": 1, "law": null, "minPerWorker": null}') == Batch(global_=1)


def test_null_without_a_default_is_refused_in_json() -> None:
    with pytest.raises(ValidationError, match="null is no value"):
        Batch.model_validate_json('{"global": 1, "maxPerWorker": null}')


def test_none_means_left_out_in_our_own_code() -> None:
    assert Batch(global_=1, max_per_worker=None) == Batch(global_=1)


def test_one_null_does_not_hide_other_problems() -> None:
    paths = [problem.path for problem in problems_of(manifest(batch=None, workers=None, suspend="x"))]
    assert paths == ["spec.batch", "spec.workers", "spec.suspend"]


def test_a_manifest_is_read_by_the_names_of_its_fields_only() -> None:
    with pytest.raises(ValidationError, match="min_per_worker"):
        Batch.from_manifest({"global": 1, "min_per_worker": 1})


@pytest.mark.parametrize("good", GOOD.values(), ids=GOOD)
def test_a_job_survives_json(good: Manifest) -> None:
    job = OmniLearnJob.from_manifest(good)
    assert OmniLearnJob.from_manifest(job.to_manifest()).to_manifest() == job.to_manifest()


def test_what_belongs_to_kubernetes_is_kept_as_it_is() -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container(env=[])], "restart_policy": 5}}
    job = OmniLearnJob.from_manifest(changed(manifest(), "spec.workers.0.template", template))
    assert job.spec.workers[0].template.spec.restart_policy is None
    kept = job.to_manifest()["spec"]["workers"][0]["template"]
    assert kept["metadata"] == template["metadata"]
    assert kept["spec"]["restart_policy"] == 5


def test_metadata_of_a_newer_server_can_be_read_though_nobody_should_write_it() -> None:
    newer = changed(manifest(), "metadata.shard", 7)
    assert OmniLearnJob.from_manifest(newer).metadata.name == "job"
    assert [problem.path for problem in problems_of(newer)] == ["metadata.shard"]


def test_a_status_is_empty_at_first() -> None:
    assert JobStatus().to_manifest() == {"conditions": [], "members": [], "decisions": [], "logged": {}, "attempts": {}}


def test_the_longest_names_of_pods_are_dns_labels() -> None:
    for job_length in (11, 30, 50):
        job, workers = "j" * job_length, "g" * (names.JOB_AND_GROUP_LENGTH - job_length)
        assert problems_of(manifest(job, workers=[group(workers, replicas=1024)], batch={"global": 1024})) == []
        pod = names.pod_name(names.worker_name(job, workers, 1023), 99999)
        assert len(pod) == names.DNS_LABEL_LENGTH


@settings(deadline=None)  # a slow machine is no failure
@given(st.lists(st.sampled_from(["a", "b1", "long"]), min_size=1), st.integers(0, 1023), st.integers(0, 99999))
def test_the_name_of_a_pod_tells_job_group_index_and_attempt(words: list[str], index: int, attempt: int) -> None:
    job = "-".join(words)
    pod = names.pod_name(names.worker_name(job, "gpu", index), attempt)
    assert pod.rsplit("-", 3) == [job, "gpu", str(index), str(attempt)]


def test_the_laws_of_the_api_are_those_that_exist() -> None:
    assert [law.value for law in LawName] == list(LAWS)
    assert Batch(global_=1).law == DEFAULT


def test_the_strategies_are_those_that_the_runtime_has() -> None:
    names = [strategy.value for strategy in StrategyType]
    assert names == ["Synchronous", "LocalSGD", "Hierarchical", "Asynchronous", "Auto"]


def test_a_job_can_be_read_back_with_all_its_times() -> None:
    time = "2026-11-16T09:00:00Z"
    status = {
        "startTime": time,
        "conditions": [{"type": "Ready", "status": "True", "reason": "EnoughWorkers", "lastTransitionTime": time}],
        "decisions": [{"time": time, "why": "why not"}],
    }
    read = JobStatus.from_manifest(status)
    assert read.start_time == read.conditions[0].last_transition_time == read.decisions[0].time
    assert JobStatus.from_manifest(json.loads(json.dumps(read.to_manifest()))) == read


@pytest.mark.parametrize("time", ["yesterday", "2026-13-01T00:00:00Z", {}])
def test_what_is_no_time_is_refused(time: Any) -> None:
    with pytest.raises(ValidationError, match="startTime"):
        JobStatus.from_manifest({"startTime": time})
