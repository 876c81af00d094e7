"""The pod template: a typed, bounded skeleton; everything else of a pod is kept as the user wrote it.

Typed is what rules look at (CEL cannot see into what is not typed) and what a local run needs.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from .base import OpenModel
from .names import TRAINER
from .quantities import parse_quantity

# A command-line argument of Linux is at most 128 KiB long.
_Argument = Annotated[str, Field(max_length=131072)]


def _int_or_string(value: Any) -> Any:
    """Refuse what the API server's type of that name refuses, above all a fraction without quotes."""
    if isinstance(value, str) or (type(value) is int and -(2**63) <= value < 2**63):
        return value
    if value is None:
        raise PydanticCustomError("null", "null is no value", {"required": False})
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    advice = f'put it in quotes, "{json.dumps(value)}"' if number else "write a quantity such as 2, 500m or 4Gi"
    raise PydanticCustomError("quantity", "{advice}", {"advice": advice})


_Quantity = Annotated[int | str, BeforeValidator(_int_or_string)]


class ResourceClaim(OpenModel):
    """A claim of a device, by the name it has in the pod's `resourceClaims`."""

    name: Annotated[str, Field(max_length=253)]
    """Name of an entry of the pod's resourceClaims."""


class Resources(OpenModel):
    """What a container may use at most."""

    limits: Annotated[dict[str, _Quantity], Field(max_length=32)] = Field(default_factory=dict)
    """The most of each resource, such as cpu, memory or nvidia.com/gpu. Shares start from the CPU limit."""

    claims: Annotated[list[ResourceClaim], Field(max_length=16)] = Field(default_factory=list)
    """Devices claimed through dynamic resource allocation."""


class Container(OpenModel):
    """A container of a worker's pod."""

    name: Annotated[str, Field(max_length=63)]
    """Name of the container. The one called trainer trains, or the only one."""

    image: Annotated[str, Field(max_length=1024)] | None = None
    """Image to run. A local run does not use it."""

    command: Annotated[list[_Argument], Field(max_length=256)] = Field(default_factory=list)
    """Command to run, such as [python, train.py]. A local run needs it."""

    args: Annotated[list[_Argument], Field(max_length=256)] = Field(default_factory=list)
    """Arguments of the command."""

    resources: Resources = Field(default_factory=Resources)
    """What the container may use. Different limits in different groups are what this is made for."""


class PodSpec(OpenModel):
    """The pod of a worker."""

    containers: Annotated[list[Container], Field(min_length=1, max_length=16)]
    """Containers of the pod."""

    restart_policy: Annotated[str, Field(max_length=32)] | None = None
    """Leave it out or write Never: a worker that ends is replaced by a new pod, not by a new container."""

    @property
    def trainer(self) -> Container:
        """The container that trains: the one with that name, or the first."""
        return next((c for c in self.containers if c.name == TRAINER), self.containers[0])

    @property
    def cpu_limit(self) -> float | None:
        """The trainer's CPUs, if they are limited."""
        limit = self.trainer.resources.limits.get("cpu")
        return None if limit is None else parse_quantity(limit)


class PodTemplate(OpenModel):
    """Metadata and spec of a worker's pods. What is not described here is passed on as it is."""

    spec: PodSpec
    """The pod itself. See kubectl explain pod.spec for the rest of its fields."""
