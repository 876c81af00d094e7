"""One worker of a fleet: takes orders as JSON lines and trains the same small net in one way or another.

Started by `fleet`, which holds it to a CPU limit. Staying alive between orders saves the import of torch, and lets
different ways of training alternate under the same conditions.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import distributed, nn
from torch._C._distributed_c10d import TCPStore
from torch.nn.parallel import DistributedDataParallel

from omnilearn_runtime import Session
from omnilearn_runtime.environment import Environment

from . import pods_train

PICTURES = pods_train.Pictures()


def network() -> nn.Module:
    """Return the net of `pods_train`, with the same parameters in every worker."""
    torch.manual_seed(0)
    return pods_train.network()


def _optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def solo(order: dict[str, Any]) -> dict[str, Any]:
    """Train by oneself for some seconds, with the batch that is one's share."""
    return _plain(network(), order["batch"], seconds=order["seconds"])


def ddp(order: dict[str, Any]) -> dict[str, Any]:
    """Train with PyTorch's DistributedDataParallel, as under torchrun: equal shares."""
    store = TCPStore("127.0.0.1", order["port"], order["world"], is_master=order["rank"] == 0)
    distributed.init_process_group(
        "gloo", store=store, rank=order["rank"], world_size=order["world"], timeout=timedelta(seconds=120)
    )
    try:
        return _plain(DistributedDataParallel(network()), order["batch"], steps=order["steps"])
    finally:
        distributed.destroy_process_group()


def _plain(model: nn.Module, batch: int, *, seconds: float = 1e9, steps: int = 10**9) -> dict[str, Any]:
    optimizer = _optimizer(model)
    times = [time.monotonic()]
    while times[-1] - times[0] < seconds and len(times) <= steps:
        begin = len(times) * batch
        images, labels = PICTURES.__getitems__(list(range(begin, begin + batch)))
        optimizer.zero_grad()
        torch.autograd.backward(F.cross_entropy(model(images), labels))
        optimizer.step()
        times.append(time.monotonic())
    return {"times": times, "batch": batch}


def joint(order: dict[str, Any]) -> dict[str, Any]:
    """Train in a job."""
    environment = Environment(
        job=order["job"],
        worker=order["worker"],
        device="cpu",
        coordinator=order["coordinator"],
        token=order["token"],
        address="127.0.0.1",
        trace_file=Path(order["trace"]) if order.get("trace") else None,
    )
    times: list[float] = []
    with Session(environment=environment) as session:
        model = network()
        session.manage(model, _optimizer(model))
        for images, labels in session.batches(PICTURES, steps=order["steps"], shuffle=False, collate=_as_it_is):
            session.step(F.cross_entropy(model(images), labels))
            if session.step_number > len(times):
                times.append(time.monotonic())
    return {"times": times}


def _as_it_is(batch: Any) -> Any:
    return batch


DEEDS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {"solo": solo, "ddp": ddp, "joint": joint}


def main() -> None:
    """Obey until there are no more orders."""
    torch.set_num_threads(1)
    _plain(network(), 32, steps=2)
    sys.stdout.write('{"ready": true}\n')
    sys.stdout.flush()
    for line in sys.stdin:
        order = json.loads(line)
        sys.stdout.write(json.dumps(DEEDS[order["do"]](order)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
