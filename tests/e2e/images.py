"""The project's images in the cluster: built if something has changed, and of that only the new layers are sent."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

from cluster import Cluster, FailedError

ROOT = Path(__file__).parents[2]
REGISTRY = "docker.io/library"
"""What a name without a registry means to Kubernetes."""

_BUILD_SECONDS = 2400


def bring(cluster: Cluster) -> None:
    """Build both images and put into the cluster what it does not have yet."""
    if cluster.importer is None:
        return  # a cluster of somebody's own has them from a registry
    command = [
        sys.executable, "-m", "scripts.images", "--registry", REGISTRY,
        "--into", shlex.join(cluster.importer), "--memory", str(cluster.loaded),
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, check=False, timeout=_BUILD_SECONDS, stdout=sys.stderr)
    if done.returncode:
        raise FailedError("the images were not built: see above")
