"""One node from upstream parts, step by step. Every step makes only what is missing, so a second run is short."""

from __future__ import annotations

import os
from pathlib import Path

from cluster import (
    binaries,
    certificates,
    cgroups,
    commands,
    control_plane,
    disk,
    images,
    kubeconfigs,
    namespaces,
    network,
    node_services,
    objects,
    packages,
    readiness,
    starting,
)
from cluster.component import Component, Node
from cluster.errors import ImpossibleError
from cluster.files import link, write
from cluster.handle import Cluster
from cluster.layout import NODE_NAME, Addresses, Places
from cluster.processes import Process
from cluster.progress import Progress


def builds(cache: Path) -> list[binaries.Build]:
    """Return all that is built for a node."""
    return [binaries.kubernetes(cache), binaries.helm(cache), binaries.coredns(cache), binaries.pause(cache)]


def prepare(places: Places, progress: Progress) -> dict[str, Path]:
    """Install and build what is missing; return where the programs are."""
    cache = binaries.programs_folder(os.environ)
    wanted = builds(cache)
    progress.say(disk.check(binaries.missing(wanted), cache, places.folder))
    packages.allow_services()
    packages.install(packages.missing(), progress)
    programs = binaries.ensure(wanted, progress)
    return programs | {name: Path(commands.find(name) or name) for name in ("etcd", "containerd")}


def early(node: Node) -> list[Component]:
    """Return the components that the others need."""
    return [control_plane.etcd(node), node_services.containerd(node), control_plane.api_server(node)]


def later(node: Node) -> list[Component]:
    """Return the components that need the API server."""
    return [
        control_plane.controller_manager(node),
        control_plane.scheduler(node),
        node_services.kubelet(node),
        node_services.proxy(node),
        node_services.coredns(node),
    ]


def up(places: Places, addresses: Addresses, progress: Progress) -> Cluster:
    """Make the cluster what it should be, whatever there is of it."""
    programs = prepare(places, progress)
    node = Node(places, addresses, programs, packages.cni_folder() or packages.CNI_FOLDERS[0])
    with progress.step("namespaces and network of the node"):
        first = _space(node)
        _files(node)
    cluster = handle(node)
    with progress.step("etcd, containerd and the API server"):
        starting.start(first, early(node), node)
        starting.wait(lambda: images.answers(places), "containerd", first, early(node), node)
        images.ensure_pause(places, programs["pause"])
        starting.wait(lambda: readiness.api(cluster), "the API server", first, early(node), node)
    with progress.step("controllers, scheduler, kubelet, kube-proxy and CoreDNS"):
        cluster.run("apply", "--server-side", "--force-conflicts", "-f", "-", given=objects.dns_rights())
        begun = starting.start(first, later(node), node)
        starting.wait(lambda: readiness.ports(node, later(node)), "their ports", first, later(node), node)
    with progress.step("node ready; Services, DNS and accounts work"):
        ready = readiness.Node(cluster, addresses, since=begun.get("kubelet"))
        starting.wait(ready.usable, "the node", first, early(node) + later(node), node)
        cluster.run("patch", "node", NODE_NAME, "--subresource=status", "--type=merge", f"--patch={objects.devices()}")
    return cluster


def handle(node: Node) -> Cluster:
    """Return how to use the cluster, with its programs put beside the kubeconfig."""
    places = node.places
    link(node.programs["kubectl"], places.kubectl)
    link(node.programs["helm"], places.helm)
    importer = images.importer(places.socket)
    return Cluster("node", places.kubeconfig, places.kubectl, places.helm, places.loaded, importer, places.volumes)


def _space(node: Node) -> Process:
    """Return the first process of the node's namespaces, linked with this machine."""
    for folder in (node.places.logs, node.places.volumes, node.places.configuration):
        folder.mkdir(parents=True, exist_ok=True)
    if namespaces.find(node.places) is None:
        for other in namespaces.others(node.places):
            raise ImpossibleError(f"this machine has another test cluster, in {other}: take it down, or use it")
        network.check(node.addresses)
        for log in node.places.logs.glob("*.log"):
            log.unlink()
        # That of a containerd which is gone.
        node.places.socket.unlink(missing_ok=True)
    cgroups.ensure()
    first = namespaces.ensure(node.places)
    network.ensure(first, node.addresses)
    return first


def _files(node: Node) -> None:
    """Write keys and kubeconfigs."""
    tokens = certificates.ensure(node.places, node.addresses)
    authority = node.key("ca.crt").read_text(encoding="utf-8")
    for user, token in tokens.items():
        place = node.places.kubeconfig if user == "admin" else node.kubeconfig(user)
        write(place, kubeconfigs.kubeconfig(node.addresses.api_url, authority, user, token), mode=0o600)
