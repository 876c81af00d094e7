"""Reads what tests look at again and again, without kubectl, whose start takes a tenth of a second of a core."""

from __future__ import annotations

import json
from functools import cache
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener

from cluster import FailedError
from kube_login import Login, login_of

Manifest = dict[str, Any]

_PATHS = {
    "omnilearnjob": ("apis/omnilearn.dev/v1alpha1", "omnilearnjobs"),
    "pod": ("api/v1", "pods"),
    "pods": ("api/v1", "pods"),
    "events": ("api/v1", "events"),
    "lease": ("apis/coordination.k8s.io/v1", "leases"),
}
_SECONDS = 60.0


class Reader:
    """Reads objects of one namespace."""

    def __init__(self, login: Login, namespace: str) -> None:
        self._login, self._namespace = login, namespace
        self._opener = _opener(login)

    @staticmethod
    def knows(kind: str) -> bool:
        """Tell whether it knows where such objects are."""
        return kind in _PATHS

    def get(self, kind: str, name: str) -> Manifest | None:
        """Return an object; None if it is not there."""
        return self._read(kind, f"/{name}")

    def every(self, kind: str, selector: str = "") -> list[Manifest]:
        """Return objects."""
        found = self._read(kind, f"?labelSelector={quote(selector)}")
        return [] if found is None else list(found["items"])

    def _read(self, kind: str, which: str) -> Manifest | None:
        version, resource = _PATHS[kind]
        address = f"{self._login.server}/{version}/namespaces/{self._namespace}/{resource}{which}"
        try:
            with self._opener.open(Request(address, headers=self._login.headers), timeout=_SECONDS) as answer:  # noqa: S310
                found: Manifest = json.load(answer)
                return found
        except HTTPError as error:
            if error.code == 404:
                return None
            raise FailedError(f"get {kind}{which}: {error.code} {error.read().decode(errors='replace')}") from None
        except (OSError, HTTPException, ValueError) as error:
            raise FailedError(f"get {kind}{which}: {error}") from None


@cache
def login_to(kubeconfig: Path) -> Login | None:
    """Return how to log in by a kubeconfig; None if only kubectl can: by a program, or without an authority."""
    try:
        login = login_of(kubeconfig)
    except (KeyError, TypeError):
        return None
    return login if login.headers or login.has_certificate else None


def _opener(login: Login) -> OpenerDirector:
    # No proxy: the cluster of the tests is on this machine.
    return build_opener(ProxyHandler({}), HTTPSHandler(context=login.tls))
