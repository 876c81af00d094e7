"""The one link between this machine and the node, and the node's routes. The node has no way to anywhere else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from cluster import commands, namespaces
from cluster.errors import FailedError, ImpossibleError
from cluster.layout import LINK, Addresses, clash
from cluster.processes import Process

INSIDE = "eth0"
# An interface that leads nowhere: what is sent to a Service passes kube-proxy's rules, and ends here if none applies.
SERVICES = "services"


def host_commands(addresses: Addresses) -> list[tuple[str, ...]]:
    """Return what makes this machine's end usable; pods and Services can be reached from here."""
    return [
        ("ip", "address", "replace", f"{addresses.host}/30", "dev", LINK),
        ("ip", "link", "set", LINK, "up"),
        ("ip", "route", "replace", str(addresses.network), "via", str(addresses.node), "dev", LINK),
    ]


def node_commands(addresses: Addresses, links: Sequence[str]) -> list[tuple[str, ...]]:
    """Return what makes the node's end usable, given the interfaces that it has."""
    bridge = [] if SERVICES in links else [("ip", "link", "add", SERVICES, "type", "bridge")]
    return [
        ("ip", "link", "set", "lo", "up"),
        ("ip", "address", "replace", f"{addresses.node}/30", "dev", INSIDE),
        ("ip", "link", "set", INSIDE, "up"),
        *bridge,
        ("ip", "link", "set", SERVICES, "up"),
        ("ip", "route", "replace", str(addresses.services), "dev", SERVICES, "src", str(addresses.node)),
        ("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"),
    ]


def check(addresses: Addresses) -> None:
    """Raise ImpossibleError if this machine uses the range for something else."""
    routes = _json("ip", "-json", "-4", "route", "show", "table", "all")
    taken = clash(addresses.network, [route["dst"] for route in routes if route.get("dev") != LINK])
    if taken:
        raise ImpossibleError(
            f"this machine has a route to {taken}, which overlaps the cluster's {addresses.network}: "
            "set OMNILEARN_CLUSTER_NETWORK to another private range"
        )


def ensure(first: Process, addresses: Addresses) -> None:
    """Make the link and the routes that are missing."""
    links = [link["ifname"] for link in json.loads(namespaces.run_inside(first, "ip", "-json", "link"))]
    if INSIDE not in links:
        remove()
        peer = ("peer", "name", INSIDE, "netns", str(first.pid))
        commands.run("ip", "link", "add", LINK, "type", "veth", *peer)
    for words in host_commands(addresses):
        commands.run(*words)
    for words in node_commands(addresses, links):
        namespaces.run_inside(first, *words)


def remove() -> None:
    """Remove the link; its addresses and routes go with it."""
    if exists():
        try:
            commands.run("ip", "link", "delete", LINK)
        except FailedError:
            # The kernel may have been faster: the link goes with the node's namespace.
            if exists():
                raise


def exists() -> bool:
    """Tell whether there is a link."""
    return any(link["ifname"] == LINK for link in _json("ip", "-json", "link"))


def _json(*words: str) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = json.loads(commands.run(*words))
    return answer
