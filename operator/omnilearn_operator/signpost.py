"""The label by which the coordinator's Service finds the pod that leads."""

from __future__ import annotations

import asyncio
import logging

from omnilearn_core.api import names

from .api import Api, ApiError

logger = logging.getLogger(__name__)

_LOOK_SECONDS, _AGAIN_SECONDS = 30.0, 1.0


class Signpost:
    """Points to this pod. The label's value is the Lease's name, which tells installations in one namespace apart."""

    def __init__(self, api: Api, namespace: str, pod: str, lease: str) -> None:
        self._api, self._namespace, self._pod, self._lease = api, namespace, pod, lease

    async def run(self) -> None:
        """Point to this pod for ever, also if somebody turns it."""
        while True:
            try:
                await self.point()
                pause = _LOOK_SECONDS
            except ApiError as error:
                logger.warning("the Service does not follow yet: %s", error)
                pause = _AGAIN_SECONDS
            await asyncio.sleep(pause)

    async def point(self) -> None:
        """Take the label from every other pod, such as a dead leader's, and give it to this one."""
        found = await self._api.every("Pod", self._namespace, f"{names.LEADER_LABEL}={self._lease}")
        labelled = {str(pod["metadata"]["name"]) for pod in found.get("items", [])}
        for other in sorted(labelled - {self._pod}):
            await self._label(other, None)
        if self._pod not in labelled:
            await self._label(self._pod, self._lease)

    async def _label(self, pod: str, value: str | None) -> None:
        try:
            await self._api.patch("Pod", self._namespace, pod, {"metadata": {"labels": {names.LEADER_LABEL: value}}})
        except ApiError as error:
            if not error.missing or pod == self._pod:  # another one may be gone by now
                raise
