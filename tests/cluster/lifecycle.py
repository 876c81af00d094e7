"""Up, down and status, whoever makes the cluster. One at a time: a second caller waits for the first."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster import given, kind, layout, machine, namespaces, node, processes, teardown
from cluster.errors import ImpossibleError
from cluster.files import write
from cluster.handle import Cluster
from cluster.layout import Places
from cluster.machine import Provider
from cluster.progress import Progress


def places() -> Places:
    """Return where the cluster's files are."""
    return layout.places(os.environ, root=os.geteuid() == 0)


def up(progress: Progress | None = None) -> Cluster:
    """Return a cluster that is up; ImpossibleError if this machine can have none, FailedError if it should."""
    progress = progress or Progress()
    here = places()
    found = machine.look(os.environ)
    provider = machine.choose(found)
    progress.say(f"provider: {provider} ({_MEANING[provider]})")
    with alone(here):
        _claim(here)
        before = here.provider.read_text(encoding="utf-8").strip() if here.provider.exists() else str(provider)
        if before == Provider.NODE and provider == Provider.KIND and namespaces.find(here):
            raise ImpossibleError(
                f"the cluster in {here.folder} was made without Docker: run `make cluster-down` first"
            )
        if provider == Provider.GIVEN:
            return given.up(Path(found.kubeconfig), here, progress)
        write(here.provider, f"{provider}\n")
        return kind.up(here, progress) if provider == Provider.KIND else _node(here, progress)


def _claim(here: Places) -> None:
    """Mark the folder as the cluster's; one with somebody else's files is refused."""
    if not here.mark.exists() and any(here.folder.iterdir()):
        raise ImpossibleError(
            f"{here.folder} has files that are not the cluster's: set OMNILEARN_CLUSTER_DIR to another"
        )
    here.mark.touch()


def _node(here: Places, progress: Progress) -> Cluster:
    """Make the node, with the addresses that it has had from its beginning."""
    addresses = layout.addresses(os.environ)
    noted = here.folder / "network"
    if noted.exists() and noted.read_text(encoding="utf-8").strip() != str(addresses.network):
        raise ImpossibleError("OMNILEARN_CLUSTER_NETWORK has changed: run `make cluster-down` first")
    write(noted, f"{addresses.network}\n")
    return node.up(here, addresses, progress)


def down(everything: bool = False, progress: Progress | None = None) -> None:
    """Take away what ``up`` has made; images and logs stay unless ``everything`` is to go."""
    progress = progress or Progress()
    here = places()
    made = here.provider.read_text(encoding="utf-8").strip() if here.provider.exists() else Provider.NODE
    with alone(here):
        if made == Provider.KIND:
            kind.down(here, progress)
        elif os.geteuid() == 0:
            teardown.down(here, everything, progress)


def status() -> list[str]:
    """Return a line for each component of the node with its process and memory, or nothing if there is no node."""
    here = places()
    first = namespaces.find(here)
    if first is None:
        return []
    found = processes.named(processes.inside(processes.everything(), first.space))
    lines = [
        f"{name:<26}{process.pid:>8}{processes.resident_megabytes(process.pid):>8.0f} MB"
        for name, process in found.items()
    ]
    return sorted(lines)


_MEANING = {
    Provider.GIVEN: "the cluster of OMNILEARN_KUBECONFIG",
    Provider.KIND: "a Docker engine answers",
    Provider.NODE: "this machine is the node, from upstream parts",
}


@contextmanager
def alone(here: Places) -> Iterator[None]:
    """Hold the folder's lock; the folder may have been deleted by whoever had it before."""
    while True:
        here.folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(here.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if here.folder.exists() and os.path.samestat(os.fstat(handle), here.folder.stat()):
                yield
                return
        finally:
            os.close(handle)
