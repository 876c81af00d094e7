"""The operator's own program against an API server in memory that fails on command: whatever it answers, it lives on.

What real pods do meanwhile is in tests/e2e/test_faulty_api.py; here is what needs no cluster.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from faulty_api import Fault, FaultyApi
from kube_login import Login
from memory_server import MemoryServer, memory_server
from omnilearn_operator.api import Manifest
from operations import job_of
from operator_process import OperatorProcess, operator_process

NAMESPACE = "team"
# Many tries, with up to ten seconds between them, of which each succeeds by even chances
_LUCKLESS_SECONDS = 150
_WRITES = ("create", "try", "patch", "status", "delete")


@dataclass(frozen=True, slots=True)
class Stage:
    """An operator, the proxy, and what is behind it."""

    server: MemoryServer
    proxy: FaultyApi
    operator: OperatorProcess

    def pods(self) -> set[str]:
        """Return the pods that are there."""
        found = self.server.do(lambda store: store.pods())
        return {str(pod["metadata"]["name"]) for pod in found}

    def until(self, what: str, pods: set[str], seconds: float) -> None:
        """Wait until there are these pods."""
        self.operator.until(what, lambda: self.pods() == pods, seconds)

    def create(self, **spec: Any) -> None:
        """Have a user create the job."""
        self.server.do(lambda store: store.create(_job(**spec)))

    def scale(self, replicas: int) -> None:
        """Have a user change how many workers there are."""

        def change(job: Manifest) -> None:
            job["spec"]["workers"][0]["replicas"] = replicas
            job["metadata"]["generation"] += 1

        self.server.do(lambda store: store.update("OmniLearnJob", "job", change))

    def kill(self, pod: str) -> None:
        """Have a pod be gone."""
        self.server.do(lambda store: store.delete("Pod", pod, force=True))


def _job(**spec: Any) -> Manifest:
    return job_of(**spec).to_manifest() | {"metadata": {"name": "job", "namespace": NAMESPACE}}


@contextmanager
def stage(folder: Path) -> Iterator[Stage]:
    with memory_server() as server:
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "omnilearn-certificate"}}
        server.do(lambda store: store.create(secret))
        proxy = FaultyApi(Login(f"http://127.0.0.1:{server.port}", {}, ssl.create_default_context()))
        proxy.start()
        try:
            config = proxy.kubeconfig(folder / "kubeconfig")
            with operator_process(config, folder, NAMESPACE, OMNILEARN_LEASE_SECONDS="5") as operator:
                operator.until("it leads", operator.leads, 30)
                yield Stage(server, proxy, operator)
        finally:
            proxy.stop()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """An operator, and a job with two pods."""
    with stage(tmp_path_factory.mktemp("stage")) as made:
        made.create(replicas=2)
        made.until("there are two", {"job-a-0-0", "job-a-1-0"}, 20)
        yield made


@pytest.fixture
def it(running: Stage) -> Iterator[Stage]:
    """The same without a fault; whatever happens, the operator lives."""
    running.proxy.faults = ()
    running.scale(2)
    running.operator.until("there are two", lambda: len(running.pods()) == 2, 60)
    yield running
    assert running.operator.lives


def next_of(pod: str) -> str:
    worker, _, attempt = pod.rpartition("-")
    return f"{worker}-{int(attempt) + 1}"


def replaced(it: Stage, seconds: float) -> None:
    """See to it that a pod that goes is replaced, once."""
    created, (goes, stays) = len(it.proxy.seen.pods()), sorted(it.pods())
    it.kill(goes)
    it.until("it is replaced", {next_of(goes), stays}, seconds)
    assert it.proxy.seen.pods()[created:] == [next_of(goes)]


def test_without_faults_a_pod_is_replaced_at_once(it: Stage) -> None:
    replaced(it, 10)


# kopf by itself gives up after the first 410, and after five other errors.
@pytest.mark.parametrize(("status", "times"), [(410, 4), (500, 13)])
def test_watches_that_are_refused_again_and_again_do_not_end_it(it: Stage, status: int, times: int) -> None:
    it.proxy.faults = (Fault(verbs=("list", "watch"), resources=("pods", "omnilearnjobs"), status=status),)
    it.proxy.cut_watches()
    it.operator.until("they are refused", lambda: it.proxy.seen.answered(status) >= times, 60)
    it.proxy.faults = ()
    replaced(it, 20)


def test_without_any_watch_it_sees_what_there_is_by_itself(it: Stage) -> None:
    it.proxy.faults = (Fault(verbs=("watch",), status=410),)
    it.proxy.cut_watches()
    refused = it.proxy.seen.answered(410)
    it.operator.until("they are refused", lambda: it.proxy.seen.answered(410) >= refused + 4, 30)
    replaced(it, 30)
    assert it.operator.leads()


def test_an_api_server_that_is_away_for_longer_than_the_lease_finds_it_as_it_was(it: Stage) -> None:
    pods, created = it.pods(), len(it.proxy.seen.pods())
    it.proxy.go_away()
    it.operator.until("it leads no more", lambda: not it.operator.leads(), 20)
    it.proxy.come_back()
    it.operator.until("it leads", it.operator.leads, 20)
    assert (it.pods(), len(it.proxy.seen.pods())) == (pods, created)
    replaced(it, 15)


def test_pods_whose_creation_is_never_answered_are_created_once(it: Stage) -> None:
    it.proxy.faults = (Fault(verbs=("create",), resources=("pods",), status=0, done=True),)
    replaced(it, 30)


def test_where_every_third_call_fails_it_gets_there_without_a_storm(it: Stage) -> None:
    it.proxy.faults = (
        Fault(status=500, share=0.2),
        Fault(status=429, share=0.2),
        Fault(verbs=_WRITES, status=409, share=0.15),
    )
    asked, created, began = len(it.proxy.seen.asked), len(it.proxy.seen.pods()), time.monotonic()
    it.scale(6)
    it.operator.until("there are six", lambda: len(it.pods()) == 6, _LUCKLESS_SECONDS)
    it.scale(3)
    it.operator.until("there are three", lambda: len(it.pods()) == 3, _LUCKLESS_SECONDS)
    assert len(it.proxy.seen.pods()) - created == 4
    assert (len(it.proxy.seen.asked) - asked) / (time.monotonic() - began) < 25
