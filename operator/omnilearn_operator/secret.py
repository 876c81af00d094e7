"""The operator's own Secret, by way of the API."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from .api import Api, ApiError
from .certificates import ConflictError


class OwnSecret:
    """Secrets of the operator's own namespace; its rights allow for one of them."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api, self._namespace = api, namespace

    async def read(self, name: str) -> tuple[dict[str, bytes], str]:
        """Return the data of a Secret, and its resourceVersion."""
        found = await self._api.get("Secret", self._namespace, name)
        data = {key: base64.b64decode(value) for key, value in (found.get("data") or {}).items()}
        return data, str(found["metadata"]["resourceVersion"])

    async def write(self, name: str, data: Mapping[str, bytes], resource_version: str) -> None:
        """Patch these keys of a Secret; raises ConflictError if it has another resourceVersion by now."""
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        body = {"metadata": {"resourceVersion": resource_version}, "data": encoded}
        try:
            await self._api.patch("Secret", self._namespace, name, body)
        except ApiError as error:
            if error.conflict:
                raise ConflictError(error.sentence) from error
            raise
