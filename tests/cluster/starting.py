"""Starting components that do not run, and waiting for them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from cluster import namespaces, processes, waiting
from cluster.component import Component, Node
from cluster.errors import FailedError
from cluster.files import write
from cluster.processes import Process

_READY_SECONDS = 120.0
# A process that has just been started is not yet the program that it will be.
_GRACE_SECONDS = 3.0


def running(first: Process, wanted: Sequence[Component]) -> dict[str, Process]:
    """Return which of the components run."""
    programs = {component.name: component.command[0] for component in wanted}
    return processes.components(processes.everything(), first.space, programs)


def stale(wanted: Sequence[Component], running: Mapping[str, Process]) -> list[Component]:
    """Return the components that do not run, or run with other words or files than they should."""
    digests = {name: process.environment.get(processes.DIGEST) for name, process in running.items()}
    return [component for component in wanted if digests.get(component.name) != component.digest]


def start(first: Process, wanted: Sequence[Component], node: Node) -> dict[str, datetime]:
    """Start what does not run as it should; return when each of these was started."""
    present = running(first, wanted)
    begun = {}
    for component in stale(wanted, present):
        if component.name in present:
            namespaces.kill(present[component.name])
        for place, text in component.files.items():
            write(place, text)
        begun[component.name] = datetime.now(UTC)
        namespaces.start(first, component, node.places)
    return begun


def wait(condition: waiting.Condition, what: str, first: Process, wanted: Sequence[Component], node: Node) -> None:
    """Wait for a condition; if a component ends meanwhile, say which, with its last lines."""
    begun = time.monotonic()

    def check() -> None:
        ended = {component.name for component in wanted} - running(first, wanted).keys()
        if ended and time.monotonic() > begun + _GRACE_SECONDS:
            name = min(ended)
            raise FailedError(f"{name} has ended:\n  {namespaces.said(node.places, name)}")

    waiting.until(condition, what, _READY_SECONDS, check)
