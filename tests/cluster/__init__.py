"""A real Kubernetes cluster for tests and for trying things: `python -m cluster up`, or ``cluster.up()``.

Three providers, the first that can be had: the cluster of OMNILEARN_KUBECONFIG, kind, or this machine as one node made
from upstream parts (machine.py chooses). What is decided is pure: layout, component, control_plane, node_services,
objects. What is done is thin: binaries, packages, namespaces, network, cgroups, images; node.py says in which order.
"""

from cluster.errors import FailedError, ImpossibleError
from cluster.handle import Cluster
from cluster.lifecycle import down, status, up

__all__ = ["Cluster", "FailedError", "ImpossibleError", "down", "status", "up"]
