"""A process of the torchft comparison: `lighthouse` is its lighthouse, without arguments it is one replica group.

It trains with torchft's Manager, its gloo group and its optimizer, the gradients in one all-reduce. Its wrapper of
DistributedDataParallel is not used: in version 0.2.0 it may end the survivors when a peer dies in an all-reduce.
Needs torchft on the path, which `peers` installs apart from our environment.
"""

from __future__ import annotations

import os
import signal
import sys
from datetime import timedelta
from typing import Any

import torch
import torchft  # type: ignore[import-not-found]
from torch import nn
from torch._C._distributed_c10d import TCPStore
from torchft.coordination import LighthouseServer  # type: ignore[import-not-found]

from .peers_work import Announcer, die_with_parent, network, paced_loss


def lighthouse() -> None:
    """Serve until killed."""
    bind = os.environ["TORCHFT_LIGHTHOUSE"].removeprefix("http://")
    server = LighthouseServer(bind=bind, min_replicas=1, join_timeout_ms=100)
    print(server.address(), flush=True)
    signal.pause()


def average(manager: Any, model: nn.Module) -> None:
    """Replace the gradients by their mean over all replica groups."""
    gradients = [each.grad for each in model.parameters() if each.grad is not None]
    flat = torch.cat([each.flatten() for each in gradients])
    manager.allreduce(flat).wait()
    for gradient, mean in zip(
        gradients, torch.split_with_sizes(flat, [each.numel() for each in gradients]), strict=True
    ):
        gradient.copy_(mean.view_as(gradient))


def train() -> None:
    """Train as one replica group until killed."""
    torch.set_num_threads(1)
    announcer = Announcer()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def load(state: dict[str, Any]) -> None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    manager = torchft.Manager(
        pg=torchft.ProcessGroupGloo(timeout=timedelta(seconds=30)),
        load_state_dict=load,
        state_dict=lambda: {"model": model.state_dict(), "optimizer": optimizer.state_dict()},
        min_replica_size=1,
        rank=0,
        world_size=1,
        store_addr="127.0.0.1",
        store_port=store.port,
        replica_id=f"replica{os.environ['PEERS_SLOT']}",
        hostname="127.0.0.1",
    )
    guarded = torchft.Optimizer(manager, optimizer)
    while True:
        before = manager.current_step()
        guarded.zero_grad()
        torch.autograd.backward(paced_loss(model))
        average(manager, model)
        guarded.step()
        if manager.current_step() > before:
            announcer.finished(manager.current_step(), manager.num_participants())


if __name__ == "__main__":
    die_with_parent()
    lighthouse() if sys.argv[1:] == ["lighthouse"] else train()
