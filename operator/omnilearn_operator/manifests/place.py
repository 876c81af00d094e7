"""What all manifests of an installation have in common."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """Where workers find the coordinator, whom they trust, and how strict their pods are."""

    coordinator: str
    """Address of the coordinator, such as wss://omnilearn-coordinator.omnilearn.svc:7443."""

    authorities: str
    """Certificates of the authorities that the coordinator's certificate may come from, as PEM."""

    restricted: bool = True
    """Give pods that say nothing about it the security context that restricted namespaces ask for."""
