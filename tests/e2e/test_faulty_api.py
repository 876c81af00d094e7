"""The operator behind an API server that is away, fails, lies and is slow: a proxy does that to the real one.

The operator is the real program, as a process of this test; the pods are real and train all the while.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import NamedTuple

import pytest

from faulty_api import Fault

from .beside import LEASE_SECONDS, Beside, beside, cutting
from .jobs import Manifest, group, job, tiny
from .kube import Kube

JOB = "digits"
_AWAY_SECONDS = 60.0
# What the operator asks for when all is well is about a tenth of this.
_MOST_A_SECOND = 25.0
# A dozen tries, of which each succeeds by even chances.
_LUCKLESS_SECONDS = 120.0
_WRITES = ("create", "try", "patch", "status", "delete")


@pytest.fixture(scope="module")
def apart(shared_kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    """An operator behind the proxy, and a job of two workers that trains for long and may have three."""
    if shared_kube.cluster.provider != "node":
        pytest.skip("only where this machine is the node do pods reach a process on it")
    with beside(shared_kube, tmp_path_factory.mktemp("beside")) as made:
        trainers = group("a", "500m", replicas=3, EPOCHS="4000", WIDTH="16")
        trainers["template"]["spec"]["terminationGracePeriodSeconds"] = 5
        shared_kube.apply(job(JOB, trainers, membership={"maxWorkers": 2}))
        shared_kube.until("two train", lambda: whole(shared_kube), 120)
        yield made


@pytest.fixture
def it(apart: Beside) -> Iterator[Beside]:
    """The same without a fault, before and after a test; whatever happens, the operator lives."""
    apart.calm()
    yield apart
    apart.calm()
    assert apart.operator.lives


class Kept(NamedTuple):
    """What must be the same afterwards."""

    generation: int
    pods: dict[str, str]
    failures: int
    preemptions: int


def kept(kube: Kube) -> Kept:
    status = kube.status(JOB)
    return Kept(status["generation"], live(kube), status["workers"]["failures"], status["workers"]["preemptions"])


def live(kube: Kube) -> dict[str, str]:
    """Return the UIDs of the pods that are there to stay, by name."""
    pods = [pod["metadata"] for pod in kube.pods(JOB) if not _over(pod)]
    return {each["name"]: each["uid"] for each in pods}


def _over(pod: Manifest) -> bool:
    return "deletionTimestamp" in pod["metadata"] or pod["status"]["phase"] in ("Succeeded", "Failed")


def whole(kube: Kube) -> bool:
    """Tell whether two pods train together: the newest generation is written to each of its members."""
    pods = [pod["metadata"]["annotations"] for pod in kube.pods(JOB) if not _over(pod)]
    newest = str(kube.status(JOB).get("generation"))
    return [each.get("omnilearn.dev/generation") for each in pods] == [newest] * 2


def both_train(it: Beside) -> None:
    it.kube.until("two train", lambda: whole(it.kube), 60)


def epoch(kube: Kube) -> int:
    """Return the newest epoch that the workers tell of themselves: no operator and no proxy is asked."""
    logs = "".join(kube.run("logs", name, "--tail=1") for name in live(kube))
    return max(map(int, re.findall(r"epoch +(\d+) of", logs)), default=0)


def kill(kube: Kube) -> str:
    """Delete a pod by force, one that trains; return its name."""
    name = min(live(kube))
    kube.run("delete", "pod", name, "--grace-period=0", "--force")
    return name


def next_of(pod: str) -> str:
    worker, _, attempt = pod.rpartition("-")
    return f"{worker}-{int(attempt) + 1}"


# Away


def test_an_api_server_that_is_away_for_long_costs_neither_a_step_nor_a_pod(it: Beside) -> None:
    before, trained, created = kept(it.kube), epoch(it.kube), len(it.proxy.seen.created)
    deleted, adopted = it.proxy.seen.count("delete", "pods"), it.operator.log.count("goes on under this coordinator")
    it.proxy.go_away()
    began = time.monotonic()
    try:
        it.operator.until("it leads no more", lambda: not it.operator.leads(), LEASE_SECONDS)
        it.kube.until("they train on", lambda: epoch(it.kube) >= trained + 3, _AWAY_SECONDS)
        trained = epoch(it.kube)
        time.sleep(max(0.0, began + _AWAY_SECONDS - time.monotonic()))
        assert epoch(it.kube) > trained
    finally:
        it.proxy.come_back()
    it.operator.until("it leads", it.operator.leads, 30)
    goes_on = "goes on under this coordinator"
    it.operator.until("it has taken over", lambda: it.operator.log.count(goes_on) > adopted, 30)
    step = it.kube.status(JOB).get("step", 0)  # of a job that has just begun, nothing may be written yet
    it.kube.until("the status moves", lambda: it.kube.status(JOB).get("step", 0) > step, 30)
    assert kept(it.kube) == before
    pods = [name for resource, name in it.proxy.seen.created[created:] if resource == "pods"]
    assert (pods, it.proxy.seen.count("delete", "pods")) == ([], deleted)


# Watches


@contextmanager
def stalled(it: Beside) -> Iterator[None]:
    both_train(it)
    it.proxy.watching.stalled = True
    yield
    assert it.proxy.watching.told["stalled"]


@contextmanager
def cut_again_and_again_and_too_old(it: Beside) -> Iterator[None]:
    both_train(it)
    watching = it.proxy.watching
    watching.gone = True
    with cutting(it.proxy, 0.7):
        it.operator.until("they are too old", lambda: watching.told["gone"] >= 4, 20)
        yield


@contextmanager
def doubled_and_reordered_and_late(it: Beside) -> Iterator[None]:
    watching = it.proxy.watching
    watching.doubled = watching.reordered = True
    watching.late_seconds = 0.5
    yield
    assert all(watching.told[each] for each in ("doubled", "late"))


@contextmanager
def refused_with_410(it: Beside) -> Iterator[None]:
    it.proxy.faults = (Fault(verbs=("watch",), status=410),)
    it.proxy.cut_watches()
    it.operator.until("they are refused", lambda: it.proxy.seen.answered(410) >= 3, 30)
    yield


@pytest.mark.parametrize(
    "trouble",
    [stalled, cut_again_and_again_and_too_old, doubled_and_reordered_and_late, refused_with_410],
    ids=lambda each: str(each.__name__),
)
def test_whatever_becomes_of_watches_a_pod_that_is_lost_is_replaced_once(
    it: Beside, trouble: Callable[[Beside], AbstractContextManager[None]]
) -> None:
    with trouble(it):
        created, lost = len(it.proxy.seen.pods()), kill(it.kube)
        it.operator.until("it is replaced", lambda: next_of(lost) in live(it.kube), 40)
    it.calm()
    it.operator.until("it leads", it.operator.leads, 40)
    assert it.proxy.seen.pods()[created:] == [next_of(lost)]
    assert len(live(it.kube)) == 2


# Answers


def test_a_pod_whose_creation_is_never_answered_is_created_once(it: Beside) -> None:
    created, failed = len(it.proxy.seen.pods()), it.proxy.seen.answered(0, 500)
    lost_answers = Fault(verbs=("create",), resources=("pods",), done=True, share=0.5)
    it.proxy.faults = (lost_answers, replace(lost_answers, status=500, share=1.0))
    lost = kill(it.kube)
    it.operator.until("it is replaced", lambda: next_of(lost) in live(it.kube), 40)
    both_train(it)
    assert it.proxy.seen.pods()[created:] == [next_of(lost)]
    assert it.proxy.seen.answered(0, 500) > failed


def test_where_every_third_call_fails_a_job_still_becomes_what_is_wanted_without_a_storm(
    it: Beside, record_property: Callable[[str, object], None]
) -> None:
    both_train(it)
    created, asked, began = len(it.proxy.seen.pods()), len(it.proxy.seen.asked), time.monotonic()
    it.proxy.faults = (
        Fault(status=500, share=0.2),
        Fault(status=429, share=0.17),
        Fault(verbs=_WRITES, status=409, share=0.1),
    )
    it.kube.run("scale", "olj", JOB, "--replicas=3")
    it.operator.until("there are three", lambda: len(live(it.kube)) == 3, _LUCKLESS_SECONDS)
    lost = kill(it.kube)
    it.operator.until("it is replaced", lambda: next_of(lost) in live(it.kube), _LUCKLESS_SECONDS)
    it.kube.run("scale", "olj", JOB, "--replicas=2")
    it.operator.until("two are left", lambda: len(live(it.kube)) == 2, _LUCKLESS_SECONDS)
    rate = (len(it.proxy.seen.asked) - asked) / (time.monotonic() - began)
    record_property("requests_a_second", round(rate, 1))
    assert len(it.proxy.seen.pods()) - created == 2  # one for the scale, one for the pod that was lost
    assert all(it.proxy.seen.answered(status) for status in (409, 429, 500))
    assert rate < _MOST_A_SECOND
    assert it.kube.status(JOB)["workers"]["failures"] == 0


# Slow


def test_where_every_answer_takes_two_seconds_a_job_starts_and_completes(it: Beside) -> None:
    it.proxy.faults = (Fault(status=200, seconds=2.0),)
    it.kube.apply(tiny("slow"))
    it.kube.until("complete", lambda: it.kube.condition("slow", "Complete").get("status") == "True", 120)
    assert [name for name in it.proxy.seen.pods() if name.startswith("slow-")] == ["slow-a-0-0"]
