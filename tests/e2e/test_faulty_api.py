"""The operator behind an API server that fails and lies: a proxy does that to the real one.

The operator is the real program, as a process of this test; the pods are real and train all the while.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

import pytest

from faulty_api import Fault

from .apart import JOB, both_train, kill, live, next_of
from .beside import Beside, cutting

# What the operator asks for when all is well is about a tenth of this.
_MOST_A_SECOND = 25.0
# A dozen tries, of which each succeeds by even chances.
_LUCKLESS_SECONDS = 120.0
_WRITES = ("create", "try", "patch", "status", "delete")


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
        it.operator.until("they are too old", lambda: watching.told["gone"] >= 4, 60)
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
    it.operator.until("they are refused", lambda: it.proxy.seen.answered(410) >= 3, 60)
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
