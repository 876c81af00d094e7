"""Hurting the node on purpose: a component is killed and started again, a pod is cut off. For tests.

A component is started again with the words and the environment that it had, so it is what it was. A cut is two rules of
the node's own packet filter, before everything that kube-proxy does, and goes with the node at the latest.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address
from pathlib import Path

from cluster import lifecycle, namespaces, processes, waiting
from cluster.errors import FailedError
from cluster.processes import Process

API_SERVER, KUBELET = "kube-apiserver", "kubelet"
_END_SECONDS = 20.0
# Whoever lists the rules sees whose they are; all of them are found by it again.
_MARK = "omnilearn-fault"
_TABLE, _CHAIN = "raw", "PREROUTING"


def component(first: Process, name: str) -> Process:
    """Return a running component of the node; FailedError if there is none of that name."""
    found = processes.named(processes.inside(processes.everything(), first.space))
    if name not in found:
        raise FailedError(f"no component {name} runs on the node: {', '.join(sorted(found)) or 'nothing'} does")
    return found[name]


def restart(name: str, down_seconds: float = 0.0) -> None:
    """Kill a component and start it again after a while; returns when it is started, not when it is ready."""
    first, here = _first(), lifecycle.places()
    with lifecycle.alone(here), _held(component(first, name)) as (process, handle):
        try:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            waiting.until(lambda: not _is_there(process), f"the end of {name}", _END_SECONDS, every=0.02)
            time.sleep(down_seconds)
        finally:
            namespaces.start_again(first, process, here)


def cut(address: str) -> None:
    """Cut a pod off from everybody: nobody is told, packets are just gone."""
    for rule in rules_for(address):
        _filter("--insert", _CHAIN, "1", *rule)


def mend(address: str) -> None:
    """Undo a cut; nothing happens if there is none."""
    for rule in rules_for(address):
        if _has(rule):
            _filter("--delete", _CHAIN, *rule)


def cuts() -> list[str]:
    """Return the addresses that are cut off now."""
    return addresses_in(_filter("--list-rules", _CHAIN))


def mend_all() -> None:
    """Undo all cuts, also those of a run that was ended by force."""
    for address in cuts():
        mend(address)


def addresses_in(rules: str) -> list[str]:
    """Return the addresses that are cut off by rules of ours, given all rules."""
    lines = [line.split() for line in rules.splitlines() if _MARK in line]
    return sorted({words[words.index("-s") + 1].partition("/")[0] for words in lines if "-s" in words})


def rules_for(address: str) -> list[tuple[str, ...]]:
    """Return the two rules that cut an address off; ValueError for anything that is not the address of one pod."""
    IPv4Address(address)
    marked = ("-m", "comment", "--comment", _MARK, "-j", "DROP")
    return [("-s", f"{address}/32", *marked), ("-d", f"{address}/32", *marked)]


def _has(rule: tuple[str, ...]) -> bool:
    try:
        _filter("--check", _CHAIN, *rule)
    except FailedError:
        return False
    return True


def _filter(*words: str) -> str:
    return namespaces.run_inside(_first(), "iptables", "--wait", "5", "--table", _TABLE, *words)


def _first() -> Process:
    first = namespaces.find(lifecycle.places())
    if first is None:
        raise FailedError("there is no node here: run `make cluster-up` first")
    return first


@contextmanager
def _held(process: Process) -> Iterator[tuple[Process, int]]:
    """Hold on to a process by a handle: its number may be another's by the time that it is signalled."""
    handle = os.pidfd_open(process.pid)
    try:
        if not _is_there(process):
            raise FailedError(f"{Path(process.arguments[0]).name} has just ended by itself")
        yield process, handle
    finally:
        os.close(handle)


def _is_there(process: Process) -> bool:
    return processes.look(process.pid) == process
