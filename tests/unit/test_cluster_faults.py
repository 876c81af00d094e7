"""Faults of the node: which processes are components, and which rules cut a pod off."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from cluster import faults, processes
from cluster.errors import FailedError
from cluster.processes import Process


@pytest.fixture
def part() -> Iterator[Process]:
    """A process that looks like a component, in no namespace of its own."""
    command = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]
    marks = {processes.NAME: os.path.basename(sys.executable)}  # noqa: PTH119 - as the kernel shows it
    with subprocess.Popen(command, env=marks, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        started.stdout.readline()
        found = processes.look(started.pid)
        assert found is not None
        yield found
        started.kill()


def test_a_component_is_told_from_its_children_by_its_program(part: Process) -> None:
    name = part.environment[processes.NAME]
    child = Process(1, part.space, ("/usr/bin/other",), part.environment)
    assert processes.named([child, part]) == {name: part}


def test_a_component_that_does_not_run_is_named_with_those_that_do(part: Process) -> None:
    with pytest.raises(FailedError, match=r"no component no-such-thing runs on the node: .*python"):
        faults.component(part, "no-such-thing")
    assert faults.component(part, part.environment[processes.NAME]) == part


def test_a_process_that_has_ended_is_not_there() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as started:
        started.wait()
    assert processes.look(started.pid) is None


def test_two_rules_cut_off_one_address_and_bear_our_mark() -> None:
    there, back = faults.rules_for("10.214.64.9")
    assert (there[:2], back[:2]) == (("-s", "10.214.64.9/32"), ("-d", "10.214.64.9/32"))
    assert "omnilearn-fault" in there


@pytest.mark.parametrize("address", ["", "0.0.0.0/0", "10.214.64.0/24", "pod"])
def test_nothing_but_one_pod_can_be_cut_off(address: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        faults.rules_for(address)


def test_cuts_are_found_among_the_rules_of_others() -> None:
    rules = (
        "-P PREROUTING ACCEPT\n"
        "-A PREROUTING -s 10.1.1.1/32 -j DROP\n"
        "-A PREROUTING -s 10.214.64.9/32 -m comment --comment omnilearn-fault -j DROP\n"
        "-A PREROUTING -d 10.214.64.9/32 -m comment --comment omnilearn-fault -j DROP\n"
    )
    assert faults.addresses_in(rules) == ["10.214.64.9"]
