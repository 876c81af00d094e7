"""What a component of the node is: a command, the files that it reads, and how one sees that it runs. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cluster.layout import Addresses, Places


@dataclass(frozen=True, slots=True)
class Node:
    """What the commands of all components depend on."""

    places: Places
    addresses: Addresses
    programs: Mapping[str, Path]
    plugins: Path

    def kubeconfig(self, user: str) -> Path:
        """Return the kubeconfig of a component."""
        return self.places.keys / f"{user}.kubeconfig"

    def key(self, name: str) -> Path:
        """Return a file of the certificates."""
        return self.places.keys / name

    def file(self, name: str) -> Path:
        """Return a configuration file."""
        return self.places.configuration / name


@dataclass(frozen=True, slots=True)
class Component:
    """One process of the node; ``port`` is open on the node's address once it works."""

    name: str
    command: tuple[str, ...]
    files: Mapping[Path, str] = field(default_factory=dict)
    port: int | None = None

    @property
    def digest(self) -> str:
        """Changes whenever a running process would have to be started anew."""
        parts = [*self.command, *(f"{file}\n{text}" for file, text in sorted(self.files.items()))]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def flags(program: Path, **values: object) -> tuple[str, ...]:
    """Return a command line: ``a_b=c`` becomes ``--a-b=c``."""
    return (str(program), *(f"--{name.replace('_', '-')}={value}" for name, value in values.items()))
