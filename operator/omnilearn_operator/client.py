"""The API over the official client: it logs in and keeps connections; what is sent are plain manifests."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio import client, config
from kubernetes.aio.client import rest

from .api import FIELD_MANAGER, UNREACHABLE, ApiError, Counted, Manifest, error_of, path_of, path_to, version_of
from .persistence import tried_again

_SECONDS = 20.0
_PAGE = 250
_MERGE = "application/merge-patch+json"
_APPLY = "application/apply-patch+yaml"
_IN_CLUSTER = "KUBERNETES_SERVICE_HOST"


class _Connections(rest.RESTClientObject):
    """Connections that are given up when what was sent is not received in time: it must not arrive later."""

    def __init__(self, configuration: client.Configuration, seconds: float) -> None:
        super().__init__(configuration)
        self._milliseconds = int(1000 * seconds)

    def _create_pool_manager(self) -> aiohttp.ClientSession:
        # The client's own session asks the environment for proxies and .netrc, in a thread, before every single call.
        # kopf's watch does not go through a proxy either.
        return aiohttp.ClientSession(connector=self._create_connector())

    def _create_connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(limit=self.maxsize, ssl=self.ssl_context, socket_factory=self._socket)

    def _socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        made = socket.socket(*address[:3])
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, self._milliseconds)
        return made


class Client:
    """Calls of one process; close it at the end."""

    def __init__(self, configuration: client.Configuration, arrival_seconds: float) -> None:
        self._configuration = configuration
        self.counted = Counted()
        self._client = client.ApiClient(configuration)
        self._client.rest_client = _Connections(configuration, arrival_seconds)

    @classmethod
    async def logged_in(cls, arrival_seconds: float) -> Client:
        """Return a client for the cluster that this process runs in, else for that of the kubeconfig.

        What it sends arrives within so many seconds, or never.
        """
        configuration = client.Configuration()
        if _IN_CLUSTER in os.environ:
            config.load_incluster_config(client_configuration=configuration)
        else:
            await config.load_kube_config(client_configuration=configuration)
        return cls(configuration, arrival_seconds)

    async def close(self) -> None:
        """Hang up."""
        await self._client.close()

    async def get(self, kind: str, namespace: str, name: str, version: str = "") -> Manifest:
        """Return an object."""
        self.counted.count("get", kind)
        return await self._call("GET", path_to(version or version_of(kind), kind, namespace, name))

    async def every(self, kind: str, namespace: str, selector: str = "", fields: str = "") -> Manifest:
        """Return the list of a kind, in a namespace or in all of them."""
        self.counted.count("list", kind)
        chosen = {"labelSelector": selector, "fieldSelector": fields}
        query = {name: value for name, value in chosen.items() if value}
        return await self._call("GET", path_to(version_of(kind), kind, namespace), query=query)

    async def pages(self, kind: str, namespace: str, selector: str = "") -> AsyncIterator[Manifest]:
        """Yield the same list in pieces."""
        query = {"limit": str(_PAGE)} | ({"labelSelector": selector} if selector else {})
        while True:
            self.counted.count("list", kind)
            found = await self._page(path_to(version_of(kind), kind, namespace), query)
            yield found
            token = found.get("metadata", {}).get("continue")
            if not token:
                return
            query["continue"] = str(token)

    async def _page(self, path: str, query: Mapping[str, str]) -> Manifest:
        """Return a piece of a list: of hundreds, one that fails for a moment would spoil all."""
        return await tried_again(lambda: self._call("GET", path, query=query))

    async def create(self, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        """Create an object, or only have it checked strictly."""
        self.counted.count("try" if dry_run else "create", manifest["kind"])
        query = {"fieldManager": FIELD_MANAGER}
        if dry_run:
            query |= {"dryRun": "All", "fieldValidation": "Strict"}
        return await self._call("POST", path_of(manifest, named=False), manifest, query=query)

    async def apply(self, manifest: Manifest) -> Manifest:
        """Make an object so, by server-side apply."""
        self.counted.count("apply", manifest["kind"])
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        return await self._call("PATCH", path_of(manifest, named=True), manifest, content=_APPLY, query=query)

    async def patch(self, kind: str, namespace: str, name: str, body: Manifest, *, status: bool = False) -> Manifest:
        """Merge something into an object, or into its status."""
        self.counted.count("status" if status else "patch", kind)
        path = path_to(version_of(kind), kind, namespace, name) + ("/status" if status else "")
        return await self._call("PATCH", path, body, content=_MERGE, query={"fieldManager": FIELD_MANAGER})

    async def delete(self, kind: str, namespace: str, name: str, uid: str) -> None:
        """Delete just this object; nothing happens if it is gone, or is another by now."""
        self.counted.count("delete", kind)
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}
        try:
            await self._call("DELETE", path_to(version_of(kind), kind, namespace, name), body)
        except ApiError as error:
            if not error.missing and not error.conflict:
                raise

    async def resources(self, version: str) -> set[str]:
        """Return the plurals that the API server serves of a group and version; none if it knows nothing of it."""
        try:
            answer = await self._call("GET", f"/apis/{version}")
        except ApiError as error:
            if error.missing:
                return set()
            raise
        return {str(each.get("name")) for each in answer.get("resources", [])}

    async def _call(
        self,
        method: str,
        path: str,
        body: Manifest | None = None,
        *,
        content: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Manifest:
        headers: dict[str, str] = {"Content-Type": content, "Accept": "application/json"}
        url = f"{self._configuration.host}{path}" + (f"?{urlencode(query)}" if query else "")
        try:
            async with asyncio.timeout(_SECONDS):
                await self._client.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
                response = await self._client.rest_client.request(method, url, headers=headers, body=body)
                data = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            sentence = f"the API server cannot be reached: {error or type(error).__name__}"
            raise ApiError(0, UNREACHABLE, sentence) from error
        answer = _read(data)
        if not 200 <= response.status < 300:
            message = {"message": data[:200].decode(errors="replace")} if answer is None else answer
            raise error_of(response.status, message, response.headers.get("Retry-After", ""))
        if answer is None:
            raise ApiError(0, UNREACHABLE, f"the API server's answer cannot be read: {data[:100]!r}")
        return answer


def _read(data: bytes) -> dict[str, Any] | None:
    """Return an answer; None if it is no object of JSON."""
    try:
        # Not pydantic's reader, which is faster: it refuses objects that are nested deeply, and others with them.
        answer = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None
