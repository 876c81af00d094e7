"""The pure parts of the chaos on pods: its plan, what it sees, what it waits for, and its judgement."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.chaos.consequences import LIMITS, Strike
from e2e.chaos.driver import Run
from e2e.chaos.manifests import EPOCH_SAMPLES, chaos_job
from e2e.chaos.plan import FEWEST, LOSSES, OF_THE_NODE, WORKERS, Fault, Kind, chosen, plan
from e2e.chaos.seen import Pod, Seen, millicpus, pod_of, seen
from e2e.chaos.verdict import complaints
from omnilearn_core.api.validate import problems_of

A = Pod("j-a-0-0", "u1", "j-a-0", 0, running=True, going=False, ended=False, generation=3, millicpus=600)
B = Pod("j-b-0-0", "u2", "j-b-0", 0, running=True, going=False, ended=False, generation=3, millicpus=400)
BEFORE = Seen(0.0, "Running", step=10, generation=3, members={"j-a-0": 60, "j-b-0": 40}, pods=(A, B), operator="o1")


def struck(kind: Kind, *victims: Pod, detail: str = "", brief: bool = False) -> Strike:
    return Strike(0, Fault(kind, count=max(1, len(victims))), 1.0, 1.0, BEFORE, victims, brief, detail)


def after(strike: Strike, now: Seen) -> list[str]:
    """Return what is still awaited after a look."""
    strike.notice(now, {pod.uid: strike.number for pod in strike.victims})
    return strike.awaited


# The plan


def test_a_seed_gives_one_plan() -> None:
    assert plan(1, 100) == plan(1, 100)
    assert plan(1, 100) != plan(2, 100)


@given(st.integers(0, 10_000), st.integers(1, 200))
def test_a_plan_has_as_many_faults_as_asked_for(seed: int, count: int) -> None:
    assert sum(fault.count for fault in plan(seed, count)) == count


@given(st.integers(0, 10_000))
def test_a_long_plan_has_every_kind_some_in_a_hurry_and_some_several_at_once(seed: int) -> None:
    faults = plan(seed, 100)
    assert {fault.kind for fault in faults} == set(Kind)
    assert any(fault.hurry for fault in faults)
    assert any(fault.count > 1 for fault in faults)


def test_where_the_node_is_somebody_else_s_it_is_left_alone() -> None:
    kinds = frozenset(Kind) - OF_THE_NODE
    assert {fault.kind for fault in plan(1, 100, kinds)} == kinds


@given(st.integers(0, 10_000), st.integers(0, WORKERS))
def test_no_fault_leaves_fewer_than_must_be_left(seed: int, holders: int) -> None:
    for fault in plan(seed, 50):
        targets = chosen(fault, range(holders))
        lost = fault.count if fault.kind in LOSSES else 0
        assert targets is None or (len(set(targets)) == len(targets) and holders - lost >= FEWEST * bool(lost))


def test_the_scheduler_chooses_whom_it_preempts() -> None:
    assert chosen(Fault(Kind.PREEMPT), [A, B]) == ()
    assert chosen(Fault(Kind.PREEMPT), [A]) is None


def test_a_fault_that_is_about_no_pod_needs_none() -> None:
    assert chosen(Fault(Kind.API_SERVER), []) == ()


# What is seen


def test_a_pod_is_read_from_its_manifest() -> None:
    state = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    status = {
        "phase": "Failed",
        "podIP": "10.0.0.7",
        "containerStatuses": [{"state": state, "restartCount": 1, "resources": {"limits": {"cpu": "300m"}}}],
        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}],
    }
    labels = {"omnilearn.dev/worker": "j-a-0", "omnilearn.dev/attempt": "4"}
    annotations = {"omnilearn.dev/generation": "9", "omnilearn.dev/memory-bound": "32"}
    metadata = {"name": "j-a-0-4", "uid": "u", "labels": labels, "annotations": annotations}
    assert pod_of({"metadata": metadata, "status": status}) == Pod(
        "j-a-0-4", "u", "j-a-0", 4, running=False, going=True, ended=True, code=137, disrupted="PreemptionByScheduler",
        restarts=1, generation=9, millicpus=300, address="10.0.0.7", bound=32,
    )  # fmt: skip


@pytest.mark.parametrize(("quantity", "thousandths"), [("300m", 300), ("2", 2000), ("0.5", 500), ("0", 0)])
def test_cpus_are_read_as_the_api_server_writes_them(quantity: str, thousandths: int) -> None:
    assert millicpus(quantity) == thousandths


def test_events_are_counted_by_reason_and_worker() -> None:
    told = {"items": [{"reason": "WorkerLost", "message": "j-a-0 is lost: silent", "count": 3}]}
    now = seen(0.0, {}, {"items": []}, told)
    assert (now.tellings("WorkerLost"), now.tellings("WorkerLost", about="j-a-0")) == (3, 3)
    assert now.tellings("WorkerLost", about="j-a") == now.tellings("WorkerPreempted") == 0


def test_a_pod_of_an_older_generation_does_not_train() -> None:
    assert BEFORE.training() == [A, B]
    assert replace(BEFORE, pods=(A, replace(B, generation=2))).training() == [A]
    assert replace(BEFORE, pods=(A, replace(B, going=True))).training() == [A]


# What must follow


def test_a_loss_is_over_when_it_was_told_and_another_pod_trains_in_the_place_of_the_first() -> None:
    strike = struck(Kind.KILL, B)
    assert after(strike, BEFORE) == ["told", "regrouped", "back"]
    told = {("WorkerPreempted", "j-b-0 was told to go"): 1}
    alone = replace(BEFORE, at=2.0, generation=4, members={"j-a-0": 100}, pods=(replace(A, generation=4),), told=told)
    assert after(strike, alone) == ["back"]
    again = (replace(A, generation=5), replace(B, name="j-b-0-1", uid="u3", attempt=1, generation=5))
    assert after(strike, replace(BEFORE, at=9.0, generation=5, pods=again)) == []
    assert strike.came == {"told": 1.0, "regrouped": 1.0, "back": 8.0}


def test_news_of_another_worker_is_not_taken_for_that_of_the_victim() -> None:
    told = {("WorkerPreempted", "j-a-0 was told to go"): 1}
    assert "told" in after(struck(Kind.KILL, B), replace(BEFORE, told=told))


def test_a_share_must_follow_a_limit_in_its_direction() -> None:
    told = {("BatchRebalanced", "j-a-0 60→40"): 1}
    pods = (replace(A, millicpus=300), B)
    for share, awaited in ((40, []), (60, ["moved"]), (70, ["moved"])):
        now = replace(BEFORE, pods=pods, told=told, members={"j-a-0": share, "j-b-0": 100 - share})
        assert after(struck(Kind.RESIZE, A, detail="300m"), now) == awaited


def test_nothing_is_awaited_of_a_resized_pod_that_something_worse_has_hit() -> None:
    strike = struck(Kind.RESIZE, A, detail="300m")
    strike.notice(BEFORE, {A.uid: 1})
    assert (strike.overtaken, strike.awaited) == (True, [])


def test_a_brief_cut_loses_nobody() -> None:
    strike = struck(Kind.CUT, A, brief=True)
    assert not strike.loses
    assert after(strike, replace(BEFORE, step=11)) == []


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_awaits_something_for_a_limited_time(kind: Kind) -> None:
    assert struck(kind, A, detail="300m").awaited != []
    assert LIMITS[kind] > 0


# The judgement


def ended(name: str, **changes: object) -> Pod:
    words = {"lost": 0, "doubled": 0, "samples": EPOCH_SAMPLES * 5, "parameterHash": "h"} | changes
    return replace(A, name=name, uid=name, running=False, ended=True, code=0, message=json.dumps(words))


def run_of(*pods: Pod, **changes: object) -> Run:
    run = Run(epochs=5, last=replace(BEFORE, phase="Complete", pods=pods))
    for name, value in changes.items():
        setattr(run, name, value)
    return run


GOOD = (ended("x"), ended("y"), ended("z"))


def test_nothing_is_said_of_a_run_in_which_all_is_well() -> None:
    assert list(complaints(run_of(*GOOD))) == []


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (run_of(*GOOD[:2]), "2 workers came to the end"),
        (run_of(*GOOD[:2], ended("z", lost=1)), "the ledger"),
        (run_of(*GOOD[:2], ended("z", samples=7)), "the ledger"),
        (run_of(*GOOD[:2], ended("z", parameterHash="other")), "different parameters"),
        (run_of(*GOOD, restarted={"x"}), "started again"),
        (run_of(*GOOD, strays={"u": "x: why"}), "nothing was done to it"),
        (run_of(*GOOD, strikes=[struck(Kind.KILL, A)]), "was not seen"),
        (run_of(*GOOD, last=replace(BEFORE, pods=GOOD, failures=1)), "1 failures"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_whatever_is_not_well_gets_a_sentence(run: Run, words: str) -> None:
    assert any(words in complaint for complaint in complaints(run))


def test_the_job_is_a_good_one() -> None:
    assert problems_of(chaos_job("chaos", "claim")) == []
