"""Put images and operator into the cluster: `make install`, and what the tests do first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import cluster as clusters
from cluster import Cluster, FailedError, ImpossibleError

from .images import ROOT, bring

SYSTEM = "omnilearn-system"
CHART = ROOT / "charts/omnilearn-operator"
_SECONDS = 300


def helm(cluster: Cluster, *words: str) -> str:
    """Run helm in the operator's namespace; FailedError with its words if it fails."""
    command = [str(cluster.helm), *words, "--namespace", SYSTEM]
    done = subprocess.run(
        command, env=cluster.environment, capture_output=True, text=True, check=False, timeout=_SECONDS + 30
    )
    if done.returncode:
        raise FailedError(f"helm {words[0]}: {done.stderr.strip()}\n{done.stdout}")
    return done.stdout


def release(cluster: Cluster, *words: str, chart: Path = CHART) -> None:
    """Install or upgrade the operator by Helm, with these values and no others, and wait until it is ready."""
    command = ("upgrade", "--install", "omnilearn", str(chart), "--create-namespace", "--wait", "--reset-values")
    helm(cluster, *command, *words)


def install(cluster: Cluster) -> None:
    """Bring the images, and install or upgrade the operator."""
    bring(cluster)
    release(cluster)
    # An image under the same name may be another one by now.
    in_system = ("--namespace", SYSTEM, "rollout")
    cluster.run(*in_system, "restart", "deployment", "--selector", "app.kubernetes.io/instance=omnilearn")
    cluster.run(*in_system, "status", "deployment", "--timeout=120s", seconds=150)


def main() -> int:
    """Install into the cluster of `make cluster-up`, which is made if it is not there."""
    try:
        cluster = clusters.up()
        install(cluster)
    except (FailedError, ImpossibleError) as error:
        sys.stderr.write(f"install: {error}\n")
        return 1
    sys.stdout.write(f"the operator is ready\nkubectl: {cluster.kubectl}\nKUBECONFIG={cluster.kubeconfig}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
