"""What the workers of both peers do: a small net in steps of 40 ms, and word of every finished step.

The scripts `peers_torchrun` and `peers_torchft` train with it; `peers_watch` listens.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import time

import torch
import torch.nn.functional as F
from torch import Tensor, nn

STEP_SECONDS = 0.04
BATCH = 16
_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Let the kernel kill this process when the one that started it ends, however it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def network() -> nn.Module:
    """Return a net of 270 thousand parameters (1.1 MB), the same in every process."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
    )  # fmt: skip


def paced_loss(model: nn.Module) -> Tensor:
    """Return the loss of a random batch, 40 ms after the call.

    The rest of the 40 ms is slept: four workers that computed all the time would wait for cores, not for each other.
    """
    due = time.monotonic() + STEP_SECONDS
    loss = F.cross_entropy(model(torch.randn(BATCH, 784)), torch.randint(0, 10, (BATCH,)))
    time.sleep(max(0.0, due - time.monotonic()))
    return loss


class Announcer:
    """Tells the benchmark of finished steps; a worker whose benchmark is gone fails here, and so ends."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.connect(os.environ["PEERS_SOCKET"])
        self._slot = int(os.environ["PEERS_SLOT"])

    def finished(self, number: int, world: int) -> None:
        """Say that a step is done, and how many took part in it."""
        step = {"number": number, "world": world, "slot": self._slot, "pid": os.getpid(), "at": time.monotonic()}
        self._socket.send(json.dumps(step).encode())
