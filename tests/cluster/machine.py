"""What this machine has, and which cluster that makes possible."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from cluster import commands, packages
from cluster.errors import ImpossibleError


class Provider(StrEnum):
    """Who makes the cluster."""

    GIVEN = "given"
    KIND = "kind"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class Machine:
    """What the choice depends on."""

    kubeconfig: str
    docker: bool
    linux: bool
    root: bool
    apt: bool
    missing: tuple[str, ...]


def look(environment: Mapping[str, str]) -> Machine:
    """Return what there is here."""
    return Machine(
        kubeconfig=environment.get("OMNILEARN_KUBECONFIG", ""),
        docker=commands.succeeds("docker", "version", "--format", "{{.Server.Version}}"),
        linux=platform.system() == "Linux",
        root=os.geteuid() == 0,
        apt=commands.find("apt-get") is not None,
        missing=packages.missing(),
    )


def choose(machine: Machine) -> Provider:
    """Return who makes the cluster: a given one, kind, or this machine as the node; or raise ImpossibleError."""
    if machine.kubeconfig:
        return Provider.GIVEN
    if machine.docker:
        return Provider.KIND
    other = "Or set OMNILEARN_KUBECONFIG to a cluster of yours, or start a Docker engine."
    if not machine.linux:
        raise ImpossibleError(f"without Docker a cluster can be made on Linux only. {other}")
    if not machine.root:
        raise ImpossibleError(f"without Docker a cluster can be made by root only. {other}")
    if machine.missing and not machine.apt:
        raise ImpossibleError(f"install what Debian calls {', '.join(machine.missing)}. {other}")
    return Provider.NODE
