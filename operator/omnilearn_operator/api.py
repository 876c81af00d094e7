"""The Kubernetes API as the operator needs it: plain manifests in and out, one way to fail."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

from omnilearn_core.api import names

Manifest = dict[str, Any]

FIELD_MANAGER = "omnilearn-operator"
UNREACHABLE = "Unreachable"
"""The reason where there is no answer at all."""

ENDING = "NamespaceTerminating"
"""The reason where nothing is taken any more because the namespace is being deleted."""

# Too many requests, and what an API server says that is itself in trouble
_PASSING = frozenset({429, 500, 502, 503, 504})

# Kinds that the operator touches: plural, and whether they live in a namespace
_KINDS = {
    "Pod": ("pods", True),
    "Service": ("services", True),
    "Event": ("events", True),
    "Secret": ("secrets", True),
    "NetworkPolicy": ("networkpolicies", True),
    "PodGroup": ("podgroups", True),
    "Lease": ("leases", True),
    "TokenReview": ("tokenreviews", False),
    names.KIND: (names.PLURAL, True),
}

_VERSIONS = {
    names.KIND: names.API_VERSION,
    "NetworkPolicy": "networking.k8s.io/v1",
    "Lease": "coordination.k8s.io/v1",
}


class ApiError(RuntimeError):
    """What the API server answered; status 0 if it did not answer."""

    def __init__(self, status: int, reason: str, sentence: str, retry_after: float = 0.0) -> None:
        super().__init__(sentence)
        self.status, self.reason, self.sentence = status, reason, sentence
        self.retry_after = retry_after
        """For so many seconds it does not want to be asked again."""

    @property
    def missing(self) -> bool:
        """True if there is no such object."""
        return self.status == 404

    @property
    def conflict(self) -> bool:
        """True if somebody else was faster."""
        return self.status == 409

    @property
    def invalid(self) -> bool:
        """True if the manifest will never be taken as it is."""
        return self.status in (400, 422)

    @property
    def passing(self) -> bool:
        """True if the same call may well succeed in a moment: nothing is wrong with what was asked."""
        return self.status in _PASSING or (self.status == 0 and self.reason == UNREACHABLE)

    @property
    def refused(self) -> bool:
        """True if it is not taken now: a quota, a policy, a missing account."""
        return self.status == 403

    @property
    def of_the_past(self) -> bool:
        """True if what it was about is being deleted, with all that is in its namespace."""
        return self.reason == ENDING


class Api(Protocol):
    """The calls. Every one has a time limit and raises ApiError."""

    async def get(self, kind: str, namespace: str, name: str, version: str = "") -> Manifest:
        """Return an object."""
        ...

    async def every(self, kind: str, namespace: str, selector: str = "", fields: str = "") -> Manifest:
        """Return the list of a kind, in a namespace or in all of them."""
        ...

    def pages(self, kind: str, namespace: str, selector: str = "") -> AsyncIterator[Manifest]:
        """Yield the same list in pieces: a whole one of thousands of pods would take hundreds of megabytes."""
        ...

    async def create(self, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        """Create an object, or only have it checked strictly."""
        ...

    async def apply(self, manifest: Manifest) -> Manifest:
        """Make an object so, by server-side apply."""
        ...

    async def patch(self, kind: str, namespace: str, name: str, body: Manifest, *, status: bool = False) -> Manifest:
        """Merge something into an object, or into its status."""
        ...

    async def delete(self, kind: str, namespace: str, name: str, uid: str) -> None:
        """Delete just this object; nothing happens if it is gone."""
        ...


class Counted:
    """The calls of a process, by verb and kind."""

    def __init__(self) -> None:
        self.calls: dict[tuple[str, str], int] = {}

    def count(self, verb: str, kind: str) -> None:
        """Count a call."""
        self.calls[verb, kind] = self.calls.get((verb, kind), 0) + 1


def path_of(manifest: Mapping[str, Any], *, named: bool) -> str:
    """Return the path of an object, or of the collection that it is created in."""
    metadata = manifest.get("metadata", {})
    name = metadata.get("name", "") if named else ""
    return path_to(manifest["apiVersion"], manifest["kind"], metadata.get("namespace", ""), name)


def path_to(version: str, kind: str, namespace: str, name: str = "") -> str:
    """Return the path of an object, or of a collection."""
    plural, namespaced = _KINDS[kind]
    root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    place = f"/namespaces/{namespace}" if namespaced and namespace else ""
    return f"{root}{place}/{plural}" + (f"/{name}" if name else "")


def version_of(kind: str) -> str:
    """Return the API version of a kind that the operator reads or patches by name."""
    return _VERSIONS.get(kind, "v1")


def error_of(status: int, body: Mapping[str, Any], retry_after: str = "") -> ApiError:
    """Return what the API server says of a request that failed; ``retry_after`` is that header."""
    sentence = str(body.get("message") or f"the API server answered {status}")
    pause = float(retry_after) if retry_after.isdecimal() else 0.0  # a date, which is allowed, is never sent
    details = body.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    ending = any(isinstance(each, dict) and each.get("reason") == ENDING for each in causes or ())
    return ApiError(status, ENDING if ending else str(body.get("reason", "")), sentence, pause)
