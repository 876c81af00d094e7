"""Whether the cluster can be used yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from cluster import component, dns, waiting
from cluster.errors import FailedError
from cluster.handle import Cluster
from cluster.layout import DOMAIN, NODE_NAME, Addresses

_READY = "{range .status.conditions[?(@.type=='Ready')]}{.status} {.lastHeartbeatTime}{end}"


def api(cluster: Cluster) -> bool:
    """Tell whether the API server is ready."""
    return _answer(cluster, "get", "--raw", "/readyz") == "ok"


def ports(node: component.Node, wanted: Sequence[component.Component]) -> bool:
    """Tell whether all components listen."""
    return all(waiting.listens(str(node.addresses.node), each.port) for each in wanted if each.port)


def heard(answer: str, since: datetime | None) -> bool:
    """Tell whether the node calls itself ready, and has done so since then: an older kubelet's word counts nothing."""
    status, _, time = answer.partition(" ")
    if status != "True":
        return False
    heartbeat = datetime.strptime(time.strip(), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    return since is None or heartbeat >= since.replace(microsecond=0)


@dataclass(frozen=True, slots=True)
class Node:
    """What pods need: a node, an account, names, and a way to the API server's Service."""

    cluster: Cluster
    addresses: Addresses
    since: datetime | None

    def usable(self) -> bool:
        """Tell whether all of it is there."""
        service = self.addresses.services[1]
        return (
            waiting.listens(str(service), 443)
            and dns.ask(str(self.addresses.node), f"kubernetes.default.svc.{DOMAIN}") == service
            and _answer(self.cluster, "get", "serviceaccount/default", "--namespace=default", "--output=name") != ""
            and heard(_answer(self.cluster, "get", "node", NODE_NAME, f"--output=jsonpath={_READY}"), self.since)
        )


def _answer(cluster: Cluster, *words: str) -> str:
    """Return what kubectl says, or nothing: who waits asks again."""
    try:
        return cluster.run(*words, seconds=10).strip()
    except FailedError:
        return ""
