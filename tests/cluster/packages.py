"""Debian's part of the node: programs that are installed if they are missing, without starting any service."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster import commands
from cluster.errors import ImpossibleError
from cluster.progress import Progress

CNI_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
NEEDED = {
    "etcd": "etcd-server",
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "ip": "iproute2",
    "openssl": "openssl",
    "nsenter": "util-linux",
    "mount": "mount",
}
POLICY = Path("/usr/sbin/policy-rc.d")
# What asks this file before starting a service takes 101 for "forbidden".
_FORBIDDING = (
    "#!/bin/sh\n# Of the OmniLearn test cluster, while it installs packages: no service is started.\nexit 101\n"
)
_APT = ("apt-get", "-qq", "-y", "-o", "DPkg::Lock::Timeout=120", "-o", "Acquire::Retries=3")


def cni_folder() -> Path | None:
    """Return where the network plugins are."""
    return next((folder for folder in CNI_FOLDERS if (folder / "ptp").exists()), None)


def missing(
    find: Callable[[str], str | None] = commands.find, cni: Callable[[], Path | None] = cni_folder
) -> tuple[str, ...]:
    """Return the packages whose programs are not here."""
    packages = {package for program, package in NEEDED.items() if find(program) is None}
    if cni() is None:
        packages.add("containernetworking-plugins")
    return tuple(sorted(packages))


def install(packages: tuple[str, ...], progress: Progress) -> None:
    """Install these packages; services that come with them are not started."""
    if not packages:
        return
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    with progress.step(f"installing {', '.join(packages)}", "a minute"), no_services():
        commands.run(*_APT, "update", seconds=300, environment=environment)
        words = (*_APT, "install", "--no-install-recommends", *packages)
        commands.run(*words, seconds=900, environment=environment)
    still = set(missing())
    if still:
        raise ImpossibleError(f"apt-get has installed {', '.join(packages)}, but {', '.join(still)} is still missing")


@contextmanager
def no_services(policy: Path = POLICY) -> Iterator[None]:
    """Forbid packages to start services, and put back what was there."""
    allow_services(policy)
    if policy.exists():
        policy.rename(_kept(policy))
    policy.write_text(_FORBIDDING, encoding="utf-8")
    policy.chmod(0o755)
    try:
        yield
    finally:
        allow_services(policy)


def allow_services(policy: Path = POLICY) -> None:
    """Put back what was there, also after a crash."""
    if policy.exists() and policy.read_text(encoding="utf-8", errors="replace") == _FORBIDDING:
        policy.unlink()
    if _kept(policy).exists():
        _kept(policy).replace(policy)


def _kept(policy: Path) -> Path:
    return policy.with_name(f"{policy.name}.before-omnilearn")
