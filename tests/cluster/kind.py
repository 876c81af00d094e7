"""A cluster of kind, where a Docker engine answers. The node is a container; kind brings its own Kubernetes."""

from __future__ import annotations

import os
from pathlib import Path

from cluster import binaries, commands, disk, objects
from cluster.errors import FailedError
from cluster.files import link
from cluster.handle import Cluster
from cluster.layout import Places
from cluster.progress import Progress

NAME = "omnilearn"
_LIMIT_SECONDS = 900


def builds(cache: Path) -> list[binaries.Build]:
    """Return what is built: the tools only."""
    return [binaries.kind(cache), binaries.kubectl(cache), binaries.helm(cache)]


def creating(kind: Path, kubeconfig: Path) -> tuple[str, ...]:
    """Return the command that makes the cluster."""
    return (str(kind), "create", "cluster", "--name", NAME, "--kubeconfig", str(kubeconfig), "--wait", "300s")


def importer(kind: Path) -> tuple[str, ...]:
    """Return the command that imports an archive; the archive's path comes last."""
    return (str(kind), "load", "image-archive", "--name", NAME)


def up(places: Places, progress: Progress) -> Cluster:
    """Make the cluster if it is not there."""
    cache = binaries.programs_folder(os.environ)
    wanted = builds(cache)
    progress.say(disk.check(binaries.missing(wanted), cache, places.folder))
    programs = binaries.ensure(wanted, progress)
    places.folder.mkdir(parents=True, exist_ok=True)
    link(programs["kubectl"], places.kubectl)
    link(programs["helm"], places.helm)
    kind = programs["kind"]
    cluster = Cluster("kind", places.kubeconfig, places.kubectl, places.helm, places.loaded, importer(kind))
    if NAME in commands.run(kind, "get", "clusters").split() and not _works(kind, cluster):
        commands.run(kind, "delete", "cluster", "--name", NAME, seconds=_LIMIT_SECONDS)
    if NAME not in commands.run(kind, "get", "clusters").split():
        with progress.step("making a cluster with kind", "1 to 3 minutes"):
            commands.run(*creating(kind, places.kubeconfig), seconds=_LIMIT_SECONDS)
    for node in cluster.run("get", "nodes", "--output=name").split():
        cluster.run("patch", node, "--subresource=status", "--type=merge", f"--patch={objects.devices()}")
    return cluster


def down(places: Places, progress: Progress) -> None:
    """Delete the cluster; its images go with its container."""
    cache = binaries.programs_folder(os.environ)
    programs = binaries.ensure([binaries.kind(cache)], progress)
    with progress.step("deleting the cluster of kind"):
        words = ("delete", "cluster", "--name", NAME, "--kubeconfig", str(places.kubeconfig))
        commands.run(programs["kind"], *words, seconds=_LIMIT_SECONDS)
    for place in (places.kubeconfig, places.kubectl, places.helm, places.loaded, places.provider):
        place.unlink(missing_ok=True)


def _works(kind: Path, cluster: Cluster) -> bool:
    """Tell whether the cluster that is there answers, with a kubeconfig written anew."""
    try:
        commands.run(kind, "export", "kubeconfig", "--name", NAME, "--kubeconfig", cluster.kubeconfig)
        return cluster.run("get", "--raw", "/readyz", seconds=20) == "ok"
    except FailedError:
        return False
