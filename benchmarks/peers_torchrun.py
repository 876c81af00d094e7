"""A worker of the torchrun comparison; `peers_agent` starts it, and starts it again.

It follows torchrun's documentation: DistributedDataParallel, a checkpoint that all load when they start, and
any failure ends the process, so that the agent starts it anew. It saves after every step, which loses the least.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from .peers_work import Announcer, die_with_parent, network, paced_loss


def train() -> None:
    """Train from the last checkpoint until killed."""
    torch.set_num_threads(1)
    announcer = Announcer()
    checkpoint = Path(os.environ["PEERS_FOLDER"]) / "checkpoint.pt"
    distributed.init_process_group("gloo")
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    number = 0
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        number = saved["step"]
    parallel = DistributedDataParallel(model)
    while True:
        optimizer.zero_grad()
        torch.autograd.backward(paced_loss(parallel))
        optimizer.step()
        number += 1
        if distributed.get_rank() == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": number}
            torch.save(state, checkpoint.with_suffix(".new"))
            checkpoint.with_suffix(".new").replace(checkpoint)
        announcer.finished(number, distributed.get_world_size())


if __name__ == "__main__":
    die_with_parent()
    train()
