"""Where everything of the cluster is: its addresses, and its files. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from cluster.errors import ImpossibleError

NODE_NAME = "omnilearn-node"
DOMAIN = "cluster.local"
LINK = "omnilearn0"
CGROUP = "omnilearn-cluster"
DEFAULT_NETWORK = "10.214.0.0/16"
API_PORT = 6443

# A path of a Unix socket may have 107 characters; this leaves room for the longest that is made below the folder.
_FOLDER_CHARACTERS = 80


@dataclass(frozen=True, slots=True)
class Addresses:
    """A range of the cluster's own, which exists on this machine only."""

    network: IPv4Network

    @property
    def host(self) -> IPv4Address:
        """This machine's end of the link to the node."""
        return self.network[1]

    @property
    def node(self) -> IPv4Address:
        """The node's end of it; the API server and the DNS server listen here."""
        return self.network[2]

    @property
    def pods(self) -> IPv4Network:
        """The addresses of pods."""
        return list(self.network.subnets(prefixlen_diff=2))[1]

    @property
    def services(self) -> IPv4Network:
        """The addresses of Services; the first is the API server's."""
        return list(self.network.subnets(prefixlen_diff=2))[2]

    @property
    def api_url(self) -> str:
        """The API server, for this machine and for the node's processes."""
        return f"https://{self.node}:{API_PORT}"


def addresses(environment: Mapping[str, str]) -> Addresses:
    """Return the addresses, by default of a range that hardly anybody uses."""
    asked_for = environment.get("OMNILEARN_CLUSTER_NETWORK") or DEFAULT_NETWORK
    try:
        network = IPv4Network(asked_for)
    except ValueError as error:
        raise ImpossibleError(f"OMNILEARN_CLUSTER_NETWORK: {error}: give a range such as {DEFAULT_NETWORK}") from None
    if network.prefixlen > 20 or not network.is_private:
        raise ImpossibleError(f"OMNILEARN_CLUSTER_NETWORK: {network} must be private and at least a /20")
    return Addresses(network)


def clash(network: IPv4Network, destinations: Sequence[str]) -> str | None:
    """Return the destination of a route of this machine that the cluster's range would take over, if any."""
    others = [text for text in destinations if text and text[0].isdigit()]
    return next((text for text in others if IPv4Network(text, strict=False).overlaps(network)), None)


@dataclass(frozen=True, slots=True)
class Places:
    """The cluster's folder, and what is where in it."""

    folder: Path

    @property
    def kubeconfig(self) -> Path:
        """For whoever uses the cluster; kubectl and helm are beside it."""
        return self.folder / "kubeconfig"

    @property
    def kubectl(self) -> Path:
        """The kubectl of the cluster's version."""
        return self.folder / "kubectl"

    @property
    def helm(self) -> Path:
        """Helm."""
        return self.folder / "helm"

    @property
    def mark(self) -> Path:
        """Says that the folder is the cluster's: without it nothing is written, and nothing is deleted."""
        return self.folder / ".omnilearn-cluster"

    @property
    def provider(self) -> Path:
        """Says who made the cluster."""
        return self.folder / "provider"

    @property
    def logs(self) -> Path:
        """One file per component."""
        return self.folder / "logs"

    @property
    def keys(self) -> Path:
        """Certificates, keys and tokens, for root's eyes only."""
        return self.folder / "keys"

    @property
    def configuration(self) -> Path:
        """What the components read at their start."""
        return self.folder / "configuration"

    @property
    def etcd(self) -> Path:
        """The cluster's objects."""
        return self.folder / "etcd"

    @property
    def kubelet(self) -> Path:
        """The volumes of pods."""
        return self.folder / "kubelet"

    @property
    def volumes(self) -> Path:
        """For persistent volumes of type hostPath: the same folder on this machine and on the node."""
        return self.folder / "volumes"

    @property
    def images(self) -> Path:
        """What containerd keeps: all images. It outlives the cluster."""
        return self.folder / "images"

    @property
    def loaded(self) -> Path:
        """For whoever imports images to note which: it lives as long as they do."""
        return self.folder / "loaded-images.json"

    @property
    def socket(self) -> Path:
        """Where containerd listens."""
        return self.folder / "containerd.sock"


def places(environment: Mapping[str, str], root: bool) -> Places:
    """Return where the cluster's files are."""
    asked_for = environment.get("OMNILEARN_CLUSTER_DIR")
    state = Path(environment.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    folder = Path(asked_for) if asked_for else Path("/var/lib") if root else state
    folder = folder if asked_for else folder / "omnilearn-cluster"
    if not folder.is_absolute() or len(str(folder)) > _FOLDER_CHARACTERS:
        raise ImpossibleError(
            f"OMNILEARN_CLUSTER_DIR: {folder} must begin with / and have at most {_FOLDER_CHARACTERS} characters"
        )
    if folder.is_relative_to("/run"):
        raise ImpossibleError(f"OMNILEARN_CLUSTER_DIR: {folder} must not be below /run: the node has its own")
    return Places(folder)
