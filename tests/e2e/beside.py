"""An operator beside the cluster: a process of the test, which reaches the API server through the faulty proxy."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from cluster import Cluster
from cluster.layout import addresses
from faulty_api import FaultyApi, faulty
from operator_process import OperatorProcess, free_ports, operator_process

from .install import SYSTEM
from .jobs import Manifest
from .kube import Kube

SERVICE = "omnilearn-coordinator"
LEASE_SECONDS = 10
RESTING = "OMNILEARN_E2E_RESTING"
"""Set by whoever lets the installed operator rest for longer than one file of tests (lanes.py)."""

_DEPLOYMENT = "deployment/omnilearn-operator"
_OPERATOR = "app.kubernetes.io/name=omnilearn-operator"


@dataclass(frozen=True, slots=True)
class Beside:
    """What a test needs of it; kubectl does not go through the proxy."""

    kube: Kube
    proxy: FaultyApi
    operator: OperatorProcess

    def calm(self) -> None:
        """End all faults."""
        self.proxy.faults = ()
        watching = self.proxy.watching
        watching.gone = watching.stalled = watching.doubled = watching.reordered = False
        watching.late_seconds = 0.0


@contextmanager
def beside(kube: Kube, folder: Path) -> Iterator[Beside]:
    """Have an operator of its own mind a namespace, while the one that is installed minds nothing."""
    ports = free_ports()
    for each in _needs(ports.coordinator):
        kube.apply(each)
    with (
        nullcontext() if RESTING in os.environ else resting(kube.cluster),
        faulty(kube.cluster.kubeconfig) as proxy,
        operator_process(
            proxy.kubeconfig(folder / "kubeconfig"),
            folder,
            kube.namespace,
            ports,
            OMNILEARN_COORDINATOR_SERVICE=SERVICE,
            OMNILEARN_LEASE_SECONDS=str(LEASE_SECONDS),
        ) as operator,
    ):
        operator.until("it leads", operator.leads, 60)
        yield Beside(kube, proxy, operator)


@contextmanager
def resting(cluster: Cluster) -> Iterator[None]:
    """Let the installed operator rest; afterwards it is there again, whatever has happened."""
    system = Kube(cluster, SYSTEM)
    try:
        system.run("scale", _DEPLOYMENT, "--replicas=0")
        system.until("it is gone", lambda: not system.every("pods", _OPERATOR), 60)
        yield
    finally:
        system.run("scale", _DEPLOYMENT, "--replicas=1")
        system.run("rollout", "status", _DEPLOYMENT, "--timeout=120s", seconds=150)


def _needs(port: int) -> list[Manifest]:
    """Return what the chart would have made: a Secret to fill, and a Service, which here leads to this machine."""
    host = str(addresses(os.environ).host)
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "omnilearn-certificate"}, "type": "Opaque"},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": SERVICE},
            "spec": {"ports": [{"name": "wss", "port": port, "protocol": "TCP"}]},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": SERVICE, "labels": {"kubernetes.io/service-name": SERVICE}},
            "addressType": "IPv4",
            "ports": [{"name": "wss", "port": port, "protocol": "TCP"}],
            "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
        },
    ]


@contextmanager
def cutting(proxy: FaultyApi, seconds: float) -> Iterator[None]:
    """Cut all watches, again and again."""
    enough = threading.Event()

    def cut() -> None:
        while not enough.wait(seconds):
            proxy.cut_watches()

    thread = threading.Thread(target=cut, name="cut watches")
    thread.start()
    try:
        yield
    finally:
        enough.set()
        thread.join()
