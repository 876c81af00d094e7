"""How a kubeconfig logs in, for tests that speak with an API server themselves."""

from __future__ import annotations

import base64
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True, slots=True)
class Login:
    """Where the API server is, and how to be let in."""

    server: str
    headers: dict[str, str]
    tls: ssl.SSLContext
    has_certificate: bool = False


def login_of(kubeconfig: Path) -> Login:
    """Return the login of a kubeconfig's current context: a token or a client certificate."""
    whole = yaml.safe_load(kubeconfig.read_text())
    context = _named(whole, "contexts", whole["current-context"])["context"]
    cluster = _named(whole, "clusters", context["cluster"])["cluster"]
    user = _named(whole, "users", context["user"])["user"]
    tls = ssl.create_default_context(cadata=_text(cluster, "certificate-authority", kubeconfig))
    has_certificate = "client-certificate-data" in user or "client-certificate" in user
    if has_certificate:
        with tempfile.TemporaryDirectory() as folder:
            chain, key = Path(folder, "chain"), Path(folder, "key")
            chain.write_text(_text(user, "client-certificate", kubeconfig))
            key.write_text(_text(user, "client-key", kubeconfig))
            tls.load_cert_chain(chain, key)
    headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
    return Login(cluster["server"].rstrip("/"), headers, tls, has_certificate)


def _named(whole: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in whole[kind] if each["name"] == name)
    return found


def _text(part: dict[str, Any], key: str, kubeconfig: Path) -> str:
    if f"{key}-data" in part:
        return base64.b64decode(part[f"{key}-data"]).decode()
    file: Path = kubeconfig.parent / part[key]
    return file.read_text(encoding="utf-8")
