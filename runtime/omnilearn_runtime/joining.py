"""What a worker says when it joins: its device, its address, and the generation it is in. Used by `session`."""

from __future__ import annotations

import socket
from collections.abc import Callable
from urllib.parse import urlparse

import torch

from omnilearn_core.api.messages import Join

from . import cpu
from .environment import Environment
from .managed import UnsuitableError
from .membership import Membership
from .saving import Saving
from .store import StoreServer


def find_device(environment: Environment) -> torch.device:
    """Return the device to compute on; raises UnsuitableError if the job wants one that is not there."""
    if environment.device == "gpu" and not torch.cuda.is_available():
        raise UnsuitableError(
            "this worker should compute on a GPU, but torch sees none: give the pod a GPU (resources.limits), or use "
            "an image whose torch fits the driver, or set the group's device to cpu"
        )
    wants = environment.device == "gpu" or (environment.alone and not environment.device)
    return torch.device("cuda" if wants and torch.cuda.is_available() else "cpu")


def own_address(environment: Environment) -> str:
    """Return where peers find this worker."""
    return environment.address or _towards(environment.coordinator or "")


def describe(
    environment: Environment, saving: Saving, store: StoreServer, membership: Callable[[], Membership]
) -> Callable[[], Join]:
    """Return the function that makes this worker's `join`, now and after every reconnection."""
    last = saving.last_generation

    def join() -> Join:
        known = membership()
        entered = known.entered
        return Join(
            device="gpu" if environment.device == "gpu" else "cpu",
            address=store.address,
            port=store.port,
            cpu_quota=cpu.cpu_quota(),
            last_generation=max(last, known.last_generation),
            round=None if entered is None else known.round,
            generation=None if entered is None else entered.generation,
            members=None if entered is None else entered.members,
            plan=None if entered is None else known.plan,
            law_state=known.law_state,
            choice=None if entered is None else entered.choice,
        )

    return join


def _towards(coordinator: str) -> str:
    """Return the address of the interface that leads to the coordinator; no packet is sent to find out."""
    parts = urlparse(coordinator)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((parts.hostname or "127.0.0.1", parts.port or 80))
        return str(probe.getsockname()[0])
