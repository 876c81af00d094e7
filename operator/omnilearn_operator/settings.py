"""The operator's environment → one frozen value, read once. docs/install.md lists the variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from omnilearn_core.api import names

from .certificates import Mode

LEASE_SECONDS = (5, 300)
_SWITCH = {"true": True, "false": False}


class BadSettingError(ValueError):
    """A variable that cannot be understood; the sentence names it."""


class LogFormat(StrEnum):
    """How a line of the log looks."""

    JSON = "json"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """How this operator was installed."""

    own_namespace: str
    namespaces: tuple[str, ...] = ()
    """The namespaces whose jobs it minds; none: all."""

    coordinator_service: str = "omnilearn-coordinator"
    coordinator_port: int = names.COORDINATOR_PORT
    metrics_port: int = names.METRICS_PORT
    health_port: int = names.HEALTH_PORT
    pod: str = ""
    """The pod that this operator runs in; empty outside of a cluster, and then no Service follows it."""

    pod_uid: str = ""
    lease: str = "omnilearn-operator"
    lease_seconds: int = 10
    certificate_secret: str = "omnilearn-certificate"  # noqa: S105 - the name of a Secret
    certificate_mode: Mode = Mode.SELF
    restrict_pods: bool = True
    log_format: LogFormat = LogFormat.JSON

    @property
    def host(self) -> str:
        """Name by which workers find the coordinator."""
        return f"{self.coordinator_service}.{self.own_namespace}.svc"

    @property
    def dns_names(self) -> tuple[str, ...]:
        """Names that the coordinator's certificate is for."""
        return (self.host, f"{self.host}.cluster.local", f"{self.coordinator_service}.{self.own_namespace}")

    def coordinator_address(self, namespace: str) -> str:
        """Return the address at which the jobs of a namespace find their coordinators."""
        return f"wss://{self.host}:{self.coordinator_port}{names.namespace_path(namespace)}"


def read(variables: Mapping[str, str] | None = None) -> OperatorSettings:
    """Return the settings of this process; raises BadSettingError with a sentence."""
    given = os.environ if variables is None else variables
    own = given.get("OMNILEARN_OWN_NAMESPACE", "").strip()
    if not own:
        raise BadSettingError("OMNILEARN_OWN_NAMESPACE is not set: set it to the namespace that the operator runs in")
    listed = given.get("OMNILEARN_NAMESPACES", "").split(",")
    fallback = OperatorSettings(own)
    return OperatorSettings(
        own_namespace=own,
        namespaces=tuple(name.strip() for name in listed if name.strip()),
        coordinator_service=given.get("OMNILEARN_COORDINATOR_SERVICE") or fallback.coordinator_service,
        coordinator_port=_port(given, "OMNILEARN_COORDINATOR_PORT", fallback.coordinator_port),
        metrics_port=_port(given, "OMNILEARN_METRICS_PORT", fallback.metrics_port),
        health_port=_port(given, "OMNILEARN_HEALTH_PORT", fallback.health_port),
        pod=given.get("OMNILEARN_POD", ""),
        pod_uid=given.get("OMNILEARN_POD_UID", ""),
        lease=given.get("OMNILEARN_LEASE") or fallback.lease,
        lease_seconds=_lease_seconds(given, fallback.lease_seconds),
        certificate_secret=given.get("OMNILEARN_CERTIFICATE_SECRET") or fallback.certificate_secret,
        certificate_mode=Mode(_one_of(given, "OMNILEARN_CERTIFICATE_MODE", list(Mode))),
        restrict_pods=_SWITCH[_one_of(given, "OMNILEARN_RESTRICT_PODS", list(_SWITCH))],
        log_format=LogFormat(_one_of(given, "OMNILEARN_LOG_FORMAT", list(LogFormat))),
    )


def _port(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name) or str(default)
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise BadSettingError(f"{name} is '{text}': set it to a port from 1 to 65535, or unset it")
    return int(text)


def _lease_seconds(given: Mapping[str, str], default: int) -> int:
    name, (least, most) = "OMNILEARN_LEASE_SECONDS", LEASE_SECONDS
    text = given.get(name) or str(default)
    if not text.isdigit() or not least <= int(text) <= most:
        raise BadSettingError(f"{name} is '{text}': set it to a number of seconds from {least} to {most}, or unset it")
    return int(text)


def _one_of(given: Mapping[str, str], name: str, choices: list[str]) -> str:
    """Return a choice; the first is the default."""
    text = given.get(name) or choices[0]
    if text not in choices:
        raise BadSettingError(f"{name} is '{text}': set it to {' or '.join(choices)}")
    return text
