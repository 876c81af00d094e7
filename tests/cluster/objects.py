"""What the node needs to have in the API. Pure."""

from __future__ import annotations

import json

from cluster.certificates import USERS

GPU, GPUS = "example.com/gpu", 2


def dns_rights() -> str:
    """Return what the DNS server may see."""
    name = USERS["coredns"].name
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [
            {"apiGroups": [""], "resources": ["services", "namespaces"], "verbs": ["list", "watch"]},
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
        ],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
    }
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [role, binding]})


def devices() -> str:
    """Return the patch that gives a node two devices: the scheduler treats them as it would a GPU."""
    return json.dumps({"status": {"capacity": {GPU: str(GPUS)}, "allocatable": {GPU: str(GPUS)}}})
