"""The API server as a load generator needs it: many calls at once, cheap, with a limit for each."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, ClientTimeout, TCPConnector

from kube_login import login_of
from omnilearn_core.api import names

Manifest = dict[str, Any]

_SECONDS = 60.0
_AT_ONCE = 16
_PAGE = 1000
_JSON = "application/json"
_ONLY_METADATA = f"{_JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_PATHS = {
    "Node": "/api/v1/nodes",
    "Namespace": "/api/v1/namespaces",
    "Pod": "/api/v1/namespaces/{}/pods",
    "Secret": "/api/v1/namespaces/{}/secrets",
    "Account": "/api/v1/namespaces/{}/serviceaccounts",
    "Lease": "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
    "Service": "/api/v1/namespaces/{}/services",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "Deployment": "/apis/apps/v1/deployments",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    names.KIND: f"/apis/{names.API_VERSION}/namespaces/{{}}/{names.PLURAL}",
}


class RefusedError(RuntimeError):
    """What the API server answered."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(f"{status}: {sentence}")
        self.status = status


class Cluster:
    """Calls of one benchmark."""

    def __init__(self, session: ClientSession, server: str) -> None:
        self._session, self._server = session, server
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def create(self, kind: str, manifest: Manifest, namespace: str = "") -> Manifest:
        """Create an object; one that is there already is left as it is."""
        try:
            return await self.call("POST", _PATHS[kind].format(namespace), manifest)
        except RefusedError as error:
            if error.status != 409:
                raise
            return manifest

    async def create_all(self, kind: str, manifests: Iterable[Manifest], namespace: str = "") -> None:
        """Create objects, some at once, as a plain loop would."""
        await asyncio.gather(*(self.create(kind, each, namespace) for each in manifests))

    async def every(self, kind: str, namespace: str = "", selector: str = "") -> list[Manifest]:
        """Return objects."""
        query = f"?labelSelector={selector}" if selector else ""
        found: list[Manifest] = (await self.call("GET", _PATHS[kind].format(namespace) + query)).get("items", [])
        return found

    async def patch(self, kind: str, namespace: str, name: str, body: Manifest) -> None:
        """Merge something into an object."""
        content = "application/merge-patch+json"
        await self.call("PATCH", f"{_PATHS[kind].format(namespace)}/{name}", body, content=content)

    async def delete(self, kind: str, name: str, namespace: str = "", grace: int | None = None) -> None:
        """Delete an object; nothing happens if it is gone."""
        body = {} if grace is None else {"gracePeriodSeconds": grace}
        await self._gone(f"{_PATHS[kind].format(namespace)}/{name}", body)

    async def delete_all(self, kind: str, namespace: str = "", selector: str = "", grace: int | None = None) -> None:
        """Delete all objects of a kind in a namespace, some at once: as a collection, one goes after the other."""
        path, token = _PATHS[kind].format(namespace), ""
        while True:
            query = f"?limit={_PAGE}" + (f"&labelSelector={selector}" if selector else "") + token
            try:
                page = await self.call("GET", path + query, accept=_ONLY_METADATA)
            except RefusedError as error:
                if error.status != 404:  # nobody knows the kind any more
                    raise
                return
            found = [each["metadata"]["name"] for each in page.get("items") or ()]
            await asyncio.gather(*(self.delete(kind, name, namespace, grace) for name in found))
            more = page["metadata"].get("continue")
            if not more:
                return
            token = f"&continue={more}"

    async def token(self, namespace: str, pod: Manifest) -> str:
        """Return a token that says the same as that in a pod."""
        reference = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        spec = {"audiences": [names.TOKEN_AUDIENCE], "expirationSeconds": 7200, "boundObjectRef": reference}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        made = await self.call("POST", f"{_PATHS['Account'].format(namespace)}/default/token", body)
        return str(made["status"]["token"])

    async def changes(self, kind: str, namespace: str, selector: str = "") -> AsyncIterator[tuple[str, Manifest]]:
        """Yield what is there and what happens to it, for ever; what is told twice is told twice."""
        query = f"&labelSelector={selector}" if selector else ""
        url = f"{self._server}{_PATHS[kind].format(namespace)}?watch=true{query}"
        while True:
            async with self._session.get(url, timeout=ClientTimeout(total=None, sock_read=None)) as answer:
                async for line in answer.content:
                    change = json.loads(line)
                    if change["type"] == "ERROR":
                        break
                    yield change["type"], change["object"]

    async def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        content: str = _JSON,
        accept: str = _JSON,
    ) -> Manifest:
        """Call the API server; RefusedError with its words if it does not do it."""
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": content, "Accept": accept}
        async with (
            self._places,
            self._session.request(method, self._server + path, data=data, headers=headers) as answer,
        ):
            text = await answer.read()
            if answer.status >= 300:
                raise RefusedError(answer.status, text[:300].decode(errors="replace"))
        found: Manifest = json.loads(text)
        return found

    async def _gone(self, path: str, body: Manifest) -> None:
        try:
            await self.call("DELETE", path, body)
        except RefusedError as error:
            if error.status != 404:
                raise


@asynccontextmanager
async def connected(kubeconfig: Path) -> AsyncIterator[Cluster]:
    """Give access to the cluster of a kubeconfig."""
    login = login_of(kubeconfig)
    connector = TCPConnector(ssl=login.tls, limit=2 * _AT_ONCE)
    limit = ClientTimeout(total=_SECONDS)
    # The lines of a watch are as long as an object is large.
    async with ClientSession(
        connector=connector, headers=login.headers, timeout=limit, read_bufsize=4 * 2**20, max_line_size=2**20
    ) as session:
        yield Cluster(session, login.server)
