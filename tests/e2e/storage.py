"""A claim to save checkpoints to: of the cluster's own storage, or a folder of the node where it has none."""

from __future__ import annotations

from .kube import Kube, Manifest

_SIZE = {"storage": "1Gi"}


def make_claim(kube: Kube, name: str = "checkpoints") -> str:
    """Make a claim in a namespace that everybody can write to, and return its name."""
    spec: Manifest = {"accessModes": ["ReadWriteMany"], "resources": {"requests": _SIZE}}
    if kube.cluster.provider == "node":
        spec |= {"storageClassName": "", "volumeName": _make_volume(kube, name)}
    kube.apply(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec},
    )
    return name


def _make_volume(kube: Kube, claim: str) -> str:
    name = f"{kube.namespace}-{claim}"
    folder = kube.cluster.kubeconfig.parent / "volumes" / name
    folder.mkdir(parents=True)
    folder.chmod(0o777)  # pods are not root, and a folder of the node does not follow fsGroup
    kube.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                "capacity": _SIZE,
                "accessModes": ["ReadWriteMany"],
                "hostPath": {"path": str(folder)},
                "claimRef": {"namespace": kube.namespace, "name": claim},
                "storageClassName": "",
            },
        }
    )
    return name
