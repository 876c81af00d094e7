"""How to reach the API server, as a file that kubectl and the components read. Pure."""

from __future__ import annotations

import base64

import yaml


def kubeconfig(url: str, authority: str, user: str, token: str) -> str:
    """Return a kubeconfig with everything in it."""
    encoded = base64.b64encode(authority.encode()).decode()
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "omnilearn", "cluster": {"server": url, "certificate-authority-data": encoded}}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "omnilearn", "context": {"cluster": "omnilearn", "user": user}}],
            "current-context": "omnilearn",
        },
        sort_keys=False,
    )
