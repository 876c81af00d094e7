"""A cluster that somebody else has made: it is looked at, and nothing of it is changed."""

from __future__ import annotations

import os
from pathlib import Path

from cluster import binaries
from cluster.errors import FailedError, ImpossibleError
from cluster.files import link
from cluster.handle import Cluster
from cluster.layout import Places
from cluster.progress import Progress


def up(kubeconfig: Path, places: Places, progress: Progress) -> Cluster:
    """Return how to use the cluster, if it answers; kubectl and helm are put into a folder of ours."""
    if not kubeconfig.is_file():
        raise ImpossibleError(f"OMNILEARN_KUBECONFIG: there is no file {kubeconfig}")
    cache = binaries.programs_folder(os.environ)
    programs = binaries.ensure([binaries.kubectl(cache), binaries.helm(cache)], progress)
    places.folder.mkdir(parents=True, exist_ok=True)
    link(programs["kubectl"], places.kubectl)
    link(programs["helm"], places.helm)
    cluster = Cluster("given", kubeconfig.resolve(), places.kubectl, places.helm, places.loaded)
    with progress.step("asking the cluster of OMNILEARN_KUBECONFIG"):
        try:
            cluster.run("get", "--raw", "/readyz", seconds=30)
        except FailedError as error:
            raise ImpossibleError(f"the cluster of OMNILEARN_KUBECONFIG does not answer: {error}") from None
    return cluster
