"""The small parts of the operator: its settings, the paths of the API, its own Secret, its status patches."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from omnilearn_core.api.names import Reason
from omnilearn_core.api.status import (
    Condition,
    ConditionStatus,
    DecisionStatus,
    JobStatus,
    MemberStatus,
    WorkerCounts,
)
from omnilearn_operator import settings
from omnilearn_operator.api import ApiError, error_of, path_of, path_to
from omnilearn_operator.certificates import ConflictError
from omnilearn_operator.logs import JsonFormatter, on_behalf_of
from omnilearn_operator.news import News
from omnilearn_operator.notes import Note
from omnilearn_operator.registry import Key
from omnilearn_operator.secret import OwnSecret
from omnilearn_operator.serving import health_app
from omnilearn_operator.settings import BadSettingError
from omnilearn_operator.status import patch_of
from operations import MemoryApi

NOTE = Note(Reason.WORKER_JOINED, "job-a-0 has joined")


# Settings


def test_the_namespace_alone_is_enough() -> None:
    read = settings.read({"OMNILEARN_OWN_NAMESPACE": "system"})
    assert (read.namespaces, read.coordinator_port, read.restrict_pods) == ((), 7443, True)
    assert read.coordinator_address("team") == "wss://omnilearn-coordinator.system.svc:7443/namespaces/team"


def test_namespaces_are_listed_with_commas() -> None:
    given = {"OMNILEARN_OWN_NAMESPACE": "system", "OMNILEARN_NAMESPACES": "a, b,"}
    assert settings.read(given).namespaces == ("a", "b")


@pytest.mark.parametrize(
    ("variable", "value", "advice"),
    [
        ("OMNILEARN_OWN_NAMESPACE", "", "set it to the namespace that the operator runs in"),
        ("OMNILEARN_METRICS_PORT", "http", "set it to a port from 1 to 65535, or unset it"),
        ("OMNILEARN_LEASE_SECONDS", "2", "set it to a number of seconds from 5 to 300, or unset it"),
        ("OMNILEARN_CERTIFICATE_MODE", "vault", "set it to self or given"),
        ("OMNILEARN_RESTRICT_PODS", "maybe", "set it to true or false"),
    ],
)
def test_a_bad_setting_gets_a_sentence(variable: str, value: str, advice: str) -> None:
    with pytest.raises(BadSettingError, match=f"{variable} is .*: {advice}"):
        settings.read({"OMNILEARN_OWN_NAMESPACE": "system", variable: value})


# The API


@pytest.mark.parametrize(
    ("version", "kind", "namespace", "name", "path"),
    [
        ("v1", "Pod", "team", "p", "/api/v1/namespaces/team/pods/p"),
        ("v1", "Event", "team", "", "/api/v1/namespaces/team/events"),
        (
            "networking.k8s.io/v1",
            "NetworkPolicy",
            "t",
            "n",
            "/apis/networking.k8s.io/v1/namespaces/t/networkpolicies/n",
        ),
        ("coordination.k8s.io/v1", "Lease", "t", "n", "/apis/coordination.k8s.io/v1/namespaces/t/leases/n"),
        ("authentication.k8s.io/v1", "TokenReview", "", "", "/apis/authentication.k8s.io/v1/tokenreviews"),
    ],
)
def test_objects_are_found_where_kubernetes_keeps_them(
    version: str, kind: str, namespace: str, name: str, path: str
) -> None:
    assert path_to(version, kind, namespace, name) == path


def test_a_manifest_is_created_in_its_collection() -> None:
    manifest = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "job", "namespace": "team"}}
    assert path_of(manifest, named=False) == "/api/v1/namespaces/team/services"


@pytest.mark.parametrize(
    ("status", "what"),
    [(404, "missing"), (409, "conflict"), (400, "invalid"), (422, "invalid"), (403, "refused")],
)
def test_an_answer_says_what_kind_of_no_it_is(status: int, what: str) -> None:
    error = error_of(status, {"message": "because"})
    kinds = [kind for kind in ("missing", "conflict", "invalid", "refused") if getattr(error, kind)]
    assert (kinds, error.sentence) == ([what], "because")


# The Secret


def test_the_secret_is_read_and_written_as_plain_bytes() -> None:
    api = MemoryApi()
    api.objects["Secret", "own"] = {"metadata": {"resourceVersion": "7"}}
    secret = OwnSecret(api, "system")

    async def use() -> tuple[dict[str, bytes], str]:
        await secret.write("own", {"tls.crt": b"pem"}, "7")
        return await secret.read("own")

    assert asyncio.run(use())[0] == {"tls.crt": b"pem"}
    assert api.objects["Secret", "own"]["data"] == {"tls.crt": base64.b64encode(b"pem").decode()}


def test_a_secret_that_somebody_else_has_changed_is_a_conflict() -> None:
    api = MemoryApi()
    api.answers["patch", "Secret"] = ApiError(409, "Conflict", "changed")
    with pytest.raises(ConflictError):
        asyncio.run(OwnSecret(api, "system").write("own", {}, "7"))


# Status patches


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        ({"step": 1}, {"step": 2}, {"step": 2}),
        ({"step": 1}, {}, {"step": None}),
        ({"step": 1}, {"step": 1}, {}),
        ({"logged": {"a": 1.0}}, {"logged": {"b": 2.0}}, {"logged": {"a": None, "b": 2.0}}),
    ],
)
def test_a_status_patch_names_what_has_changed(
    before: dict[str, Any], after: dict[str, Any], patch: dict[str, Any]
) -> None:
    assert patch_of(JobStatus(**before), JobStatus(**after)) == patch


def test_a_status_of_256_workers_stays_small() -> None:
    attempts = {f"a-job-with-a-longer-name-group-{index}": 3 for index in range(256)}
    members = [
        MemberStatus(worker=name, device="gpu", share=4096, samples_per_second=12345.0, step_milliseconds=1234.0)
        for name in list(attempts)[:64]
    ]
    now = datetime(2026, 11, 16, tzinfo=UTC)
    condition = Condition(
        type="Ready", status=ConditionStatus.TRUE, reason="R", message="m" * 4000, last_transition_time=now
    )
    status = JobStatus(
        attempts=attempts,
        workers=WorkerCounts(desired=256),
        members=members,
        decisions=[DecisionStatus(time=now, why="w" * 1024)] * 10,
        conditions=[condition] * 4,
        logged={f"a-metric-with-a-longer-name-{index}": 1.2345 for index in range(32)},
    )
    assert len(status.model_dump_json()) < 64_000


def test_a_line_of_the_log_bears_the_job_that_it_is_about() -> None:
    record = logging.LogRecord("omnilearn", logging.INFO, "", 1, "hired %s", ("a-0",), None)

    async def write() -> str:
        on_behalf_of(Key("team", "job"))
        return await asyncio.create_task(_formatted(record))

    line = json.loads(asyncio.run(write()))
    assert (line["job"], line["message"]) == ("team/job", "hired a-0")
    assert "job" not in json.loads(JsonFormatter().format(record))


async def _formatted(record: logging.LogRecord) -> str:
    return JsonFormatter().format(record)


# The news


def test_of_plans_the_newest_is_told_now_and_then_and_all_else_at_once() -> None:
    news, key = News(), Key("team", "job")
    plans = [Note(Reason.BATCH_REBALANCED, text) for text in ("first", "second", "third")]
    news.add(key, plans[0])
    assert news.take(key, 0.0, 20.0) == [plans[0]]
    news.add(key, plans[1])
    news.add(key, NOTE)
    news.add(key, plans[2])
    assert (news.take(key, 1.0, 20.0), news.take(key, 20.0, 20.0)) == ([NOTE], [plans[2]])
    news.forget(key)
    assert news.take(key, 100.0, 20.0) == []


# Health


@pytest.mark.parametrize(
    ("seconds", "missing", "statuses"), [(1.0, "", (200, 200)), (61.0, "a certificate", (500, 503))]
)
def test_an_operator_that_stands_still_or_waits_says_so(
    seconds: float, missing: str, statuses: tuple[int, int]
) -> None:
    async def ask() -> tuple[int, int]:
        app = health_app(lambda: time.monotonic() - seconds, lambda: missing)
        async with TestClient(TestServer(app)) as client:
            return (await client.get("/healthz")).status, (await client.get("/readyz")).status

    assert asyncio.run(ask()) == statuses
