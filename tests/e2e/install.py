"""Put images and operator into the cluster: `make install`, and what the tests do first."""

from __future__ import annotations

import subprocess
import sys

import cluster as clusters
from cluster import Cluster, FailedError, ImpossibleError

from .images import ROOT, bring

SYSTEM = "omnilearn-system"
_SECONDS = 300


def upgrade(cluster: Cluster, *settings: str) -> None:
    """Install or upgrade the operator with these values, and wait until it is ready."""
    command = [
        str(cluster.helm), "upgrade", "--install", "omnilearn", str(ROOT / "charts/omnilearn-operator"),
        "--namespace", SYSTEM, "--create-namespace", "--wait", "--timeout", f"{_SECONDS}s",
        # Without it, an upgrade that sets nothing goes on with what was set before.
        "--reset-values",
        *(word for setting in settings for word in ("--set", setting)),
    ]  # fmt: skip
    done = subprocess.run(
        command, env=cluster.environment, capture_output=True, text=True, check=False, timeout=_SECONDS + 30
    )
    if done.returncode:
        raise FailedError(f"helm: {done.stderr.strip()}")


def install(cluster: Cluster) -> None:
    """Bring the images, and install or upgrade the operator."""
    bring(cluster)
    upgrade(cluster)
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
