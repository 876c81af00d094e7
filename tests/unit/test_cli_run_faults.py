"""Faults of a local run: how they are written, and when they are due."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnilearn_cli.local.faults import BadFaultError, Do, Fault, Moment, added_workers, due, resolved
from omnilearn_cli.local.reading import faults_of, faults_of_file, faults_of_options

WORKERS = ("job-big-0", "job-small-0", "job-small-1")
GROUPS = ("big", "small")


def moments() -> st.SearchStrategy[Moment]:
    seconds = st.floats(0, 100).map(lambda value: Moment(seconds=value))
    return seconds | st.integers(0, 100).map(lambda value: Moment(step=value))


def test_a_file_lists_what_happens_when() -> None:
    found = faults_of(
        [
            {"at": "12s", "do": "kill", "worker": "big-0", "stay": "away"},
            {"step": 40, "do": "cpu", "worker": "big-0", "cpu": 0.5},
            {"at": 3, "do": "add", "group": "small"},
            {"at": 1.5, "do": "stopCoordinator"},
        ]
    )
    assert found == [
        Fault(Moment(seconds=12.0), Do.KILL, "big-0", stays_away=True),
        Fault(Moment(step=40), Do.CPU, "big-0", cpus=0.5),
        Fault(Moment(seconds=3.0), Do.ADD, "small"),
        Fault(Moment(seconds=1.5), Do.STOP_COORDINATOR),
    ]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"at": 1}, "write a list, each entry like"),
        (["kill"], "entry 1 is no mapping"),
        ([{"at": 1, "do": "kill", "worker": "a", "who": "me"}], "entry 1 has a field who: use at, step, do"),
        ([{"at": 1, "do": "explode"}], "entry 1 says explode in do: use one of kill, freeze"),
        ([{"at": 1}], "entry 1 says nothing in do"),
        ([{"do": "kill", "worker": "a"}], "entry 1 needs a time, either at: 12s or step: 40"),
        ([{"at": 1, "step": 1, "do": "kill", "worker": "a"}], "entry 1 needs a time, either"),
        ([{"at": "soon", "do": "kill", "worker": "a"}], "entry 1 has at soon: use seconds such as 12s"),
        ([{"at": -1, "do": "kill", "worker": "a"}], "entry 1 has at -1"),
        ([{"at": True, "do": "kill", "worker": "a"}], "entry 1 has at True"),
        ([{"step": 1.5, "do": "kill", "worker": "a"}], "entry 1 has step 1.5: use a whole number"),
        ([{"step": True, "do": "kill", "worker": "a"}], "entry 1 has step True"),
        ([{"at": 1, "do": "kill"}], "entry 1 needs the name of a worker, because kill happens to one"),
        ([{"at": 1, "do": "kill", "group": "a"}], "entry 1 has a group, but kill needs a worker"),
        ([{"at": 1, "do": "stopCoordinator", "worker": "a"}], "has a worker, but stopCoordinator takes none"),
        ([{"at": 1, "do": "cpu", "worker": "a"}], "entry 1 has cpu None: use a number of CPUs such as 0.5"),
        ([{"at": 1, "do": "cpu", "worker": "a", "cpu": 0}], "entry 1 has cpu 0"),
        ([{"at": 1, "do": "kill", "worker": "a", "cpu": 1}], "entry 1 has a cpu, but kill takes none"),
        ([{"at": 1, "do": "freeze", "worker": "a", "stay": "away"}], "only kill and terminate can have it"),
        ([{"at": 1, "do": "kill", "worker": "a", "stay": "here"}], "only stay: away"),
    ],
)
def test_an_entry_that_makes_no_sense_gets_a_sentence(content: Any, sentence: str) -> None:
    with pytest.raises(BadFaultError) as caught:
        faults_of(content)
    assert sentence in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadFaultError, match="cannot be read"):
        faults_of_file(tmp_path / "none.yaml")
    bad = tmp_path / "bad.yaml"
    bad.write_text("- {at: 1\n- [")
    with pytest.raises(BadFaultError, match="line 2: this is not YAML"):
        faults_of_file(bad)
    bad.write_text("- {at: 1}")
    with pytest.raises(BadFaultError, match=r"bad\.yaml: entry 1"):
        faults_of_file(bad)
    bad.write_text("")
    assert faults_of_file(bad) == []


@pytest.mark.parametrize(
    ("do", "text", "fault"),
    [
        (Do.KILL, "12s:big-0", Fault(Moment(seconds=12.0), Do.KILL, "big-0")),
        (Do.KILL, "12:big-0", Fault(Moment(seconds=12.0), Do.KILL, "big-0")),
        (Do.FREEZE, "step40:big-0", Fault(Moment(step=40), Do.FREEZE, "big-0")),
        (Do.CPU, "1.5s:big-0=0.25", Fault(Moment(seconds=1.5), Do.CPU, "big-0", cpus=0.25)),
        (Do.ADD, "3:small", Fault(Moment(seconds=3.0), Do.ADD, "small")),
        (Do.STOP_COORDINATOR, "5s", Fault(Moment(seconds=5.0), Do.STOP_COORDINATOR)),
    ],
)
def test_an_option_says_the_same_in_short(do: Do, text: str, fault: Fault) -> None:
    assert faults_of_options(do, [text]) == [fault]


@pytest.mark.parametrize(
    ("do", "text", "example"),
    [
        (Do.KILL, "big-0", "--kill 12s:big-0"),
        (Do.KILL, "12s", "--kill 12s:big-0"),
        (Do.KILL, "stepx:big-0", "--kill"),
        (Do.KILL, "12s:big-0=2", "--kill"),
        (Do.KILL, "inf:big-0", "--kill"),
        (Do.CPU, "12s:big-0", "--cpu 12s:big-0=0.5"),
        (Do.CPU, "12s:big-0=0", "--cpu"),
        (Do.ADD, "12s", "--add 12s:small"),
        (Do.STOP_COORDINATOR, "12s:big-0", "--coordinator-stop 12s"),
        (Do.START_COORDINATOR, "-1", "--coordinator-start 15s"),
    ],
)
def test_an_option_that_makes_no_sense_gets_an_example(do: Do, text: str, example: str) -> None:
    with pytest.raises(BadFaultError) as caught:
        faults_of_options(do, [text])
    assert f"'{text}' cannot be understood: write for example {example}" in str(caught.value)


def test_a_worker_may_be_named_without_its_job() -> None:
    fault = Fault(Moment(step=1), Do.KILL, "big-0")
    assert resolved([fault], "job", GROUPS, WORKERS)[0].target == "job-big-0"


def test_a_worker_that_is_added_may_be_named_too() -> None:
    faults = [Fault(Moment(step=1), Do.ADD, "small"), Fault(Moment(step=2), Do.KILL, "small-2")]
    assert resolved(faults, "job", GROUPS, WORKERS)[1].target == "job-small-2"
    assert added_workers(faults, "job", GROUPS, WORKERS) == ["job-small-2"]


@pytest.mark.parametrize(
    ("do", "name", "sentence"),
    [
        (Do.KILL, "big-1", "kill big-1: there is no worker big-1: use one of job-big-0"),
        (Do.ADD, "huge", "add huge: there is no group huge: use one of big, small"),
    ],
)
def test_a_name_that_is_nobodys_is_refused(do: Do, name: str, sentence: str) -> None:
    with pytest.raises(BadFaultError) as caught:
        resolved([Fault(Moment(step=1), do, name)], "job", GROUPS, WORKERS)
    assert sentence in str(caught.value)


@settings(derandomize=True, max_examples=50)
@given(st.lists(moments(), max_size=8), st.floats(0, 100), st.integers(0, 100))
def test_each_fault_is_either_due_or_kept_for_later(when: list[Moment], seconds: float, step: int) -> None:
    faults = [Fault(at, Do.STOP_COORDINATOR) for at in when]
    now, later = due(faults, seconds, step)
    assert sorted(map(str, now + later)) == sorted(map(str, faults))
    assert all(fault.at.has_come(seconds, step) for fault in now)
    assert not any(fault.at.has_come(seconds, step) for fault in later)


def test_the_earliest_is_first() -> None:
    late, early = (Fault(Moment(seconds=at), Do.KILL, "a") for at in (2.0, 1.0))
    assert due([late, early], 3.0, 0) == ([early, late], [])
