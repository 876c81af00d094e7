"""Pods on nodes that are not ready: two signs are needed before a worker is taken for lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from coordination import running
from decisions import look, reasons
from omnilearn_coordinator.membership import without_silent
from omnilearn_coordinator.membership.actions import Kind
from omnilearn_coordinator.view import JobView, MemberState
from omnilearn_core.api import names
from omnilearn_operator.observed import pod_from
from operations import job_of, member, pod, view_of

_WHY = "its node is not ready"


def seen(**conditions: tuple[str, str]) -> bool:
    """Return whether the node of a pod with these conditions is taken for one that is not ready."""
    listed = [{"type": kind, "status": is_so, "reason": why} for kind, (is_so, why) in conditions.items()]
    labels = {names.WORKER_LABEL: "job-a-0", names.ATTEMPT_LABEL: "0"}
    made = pod_from({"metadata": {"name": "p", "labels": labels}, "status": {"conditions": listed}})
    assert made is not None
    return made.unheard


@pytest.mark.parametrize(
    ("conditions", "unheard"),
    [
        ({}, False),
        ({"Ready": ("True", ""), "ContainersReady": ("True", "")}, False),
        # by the control plane, when a kubelet is not heard of
        ({"Ready": ("False", ""), "ContainersReady": ("True", "")}, True),
        # by the kubelet: not started yet, ended, a gate
        ({"Ready": ("False", "ContainersNotReady"), "ContainersReady": ("False", "ContainersNotReady")}, False),
        ({"Ready": ("False", "PodFailed"), "ContainersReady": ("False", "PodFailed")}, False),
        ({"Ready": ("False", "ReadinessGatesNotReady"), "ContainersReady": ("True", "")}, False),
        # a node that is lost while it starts the pod
        ({"Ready": ("False", ""), "ContainersReady": ("False", "ContainersNotReady")}, False),
    ],
)
def test_a_node_that_is_not_ready_is_known_by_what_it_did_not_say_itself(
    conditions: dict[str, tuple[str, str]], unheard: bool
) -> None:
    assert seen(**conditions) is unheard


WITHOUT = view_of([member(0)])
WITH = view_of([member(0), member(1)])


@pytest.mark.parametrize(
    ("view", "replaced"),
    [
        (WITHOUT, ["job-a-1"]),
        (replace(WITHOUT, members=(*WITHOUT.members, member(1, state=MemberState.LOST))), ["job-a-1"]),
        # only the kubelet is away
        (WITH, []),
        (replace(WITHOUT, joiners=("job-a-1",)), []),
        # it may be us who are cut off
        (view_of(), []),
        (replace(WITH, members=tuple(replace(each, state=MemberState.LOST) for each in WITH.members)), []),
        # nobody has said yet who is there
        (None, []),
    ],
)
def test_a_worker_is_replaced_if_neither_its_node_nor_itself_is_heard(
    view: JobView | None, replaced: list[str]
) -> None:
    decision = look(job_of(), pod(0), pod(1, unheard=True), view=view)
    assert [each.name for each in decision.create] == replaced
    assert reasons(decision).count("WorkerPreempted") == len(replaced)
    assert (decision.book.preemptions, decision.book.failures) == (len(replaced), 0)
    assert decision.delete == ()


def test_a_node_that_is_well_is_not_asked_for_another_sign() -> None:
    assert look(job_of(), pod(0), pod(1), view=WITHOUT).create == ()


def test_it_is_counted_once_also_when_the_cluster_gives_it_up_in_the_end() -> None:
    first = look(job_of(), pod(0), pod(1, unheard=True), view=WITHOUT)
    comes = pod(1, attempt=1, running=False)
    given_up: dict[str, Any] = {"disrupted": "DeletionByTaintManager", "leaving": True}
    for changes in ({}, given_up):
        gone = pod(1, unheard=True, **changes)
        again = look(job_of(), pod(0), gone, comes, view=WITHOUT, book=first.book)
        assert (again.book.preemptions, again.create, again.delete) == (1, (), ())


def test_a_pod_that_comes_back_with_its_node_goes_if_another_has_its_place() -> None:
    first = look(job_of(), pod(0), pod(1, unheard=True), view=WITHOUT)
    back = look(job_of(), pod(0), pod(1), pod(1, attempt=1, running=False), view=WITHOUT, book=first.book)
    assert [(each.name, each.why) for each in back.delete] == [("job-a-1-0", "a newer attempt has replaced it")]


def test_a_pod_that_comes_back_before_another_is_created_stays() -> None:
    first = look(job_of(), pod(0), pod(1, unheard=True), view=WITHOUT)
    back = look(job_of(), pod(0), pod(1), view=WITH, book=first.book)
    assert (back.create, back.delete) == ((), ())


@pytest.mark.parametrize(("silent", "attempt", "lost"), [(2.9, 0, []), (3.1, 0, ["b"]), (3.1, 1, [])])
def test_of_a_node_that_is_not_ready_a_member_is_lost_after_three_reports(
    silent: float, attempt: int, lost: list[str]
) -> None:
    scene = running("a", "b", "c")
    scene.now += silent
    scene.reports("a")
    scene.state = without_silent(scene.state, 3.0, scene.now, [("a", 0), ("b", attempt)], _WHY)
    scene.passes()
    said = "is lost: its node is not ready, and nothing was heard of it for 3 s"
    assert scene.told(Kind.LOST) == [f"{name} {said}" for name in lost]
    assert list(scene.newest.names) == sorted({"a", "b", "c"} - set(lost))
