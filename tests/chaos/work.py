"""What the workers of the chaos tests train: a small float64 model, for as long as the test wants.

`train` runs in a forked process (see zygote.py); `train_alone` is plain torch and gives the parameters to compare with.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import time
from functools import partial
from pathlib import Path
from types import FrameType

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import omnilearn_runtime as omnilearn
from omnilearn_runtime import buckets, faults
from omnilearn_runtime.ledger import epoch_order

SAMPLES = 2900
GLOBAL_BATCH = 32
SEED = 0
_EVALUATED = 200
_MICRO_BATCH = 8
_SECONDS_PER_SAMPLE = 0.0015
_NEVER = 10**6

# Small enough that each layer is a bucket of its own.
_BUCKET_BYTES = 600


def data() -> TensorDataset:
    """Return inputs and outputs, the same in every process."""
    generator = torch.Generator().manual_seed(7)
    inputs = torch.randn(SAMPLES, 12, dtype=torch.float64, generator=generator)
    hidden = torch.randn(12, 3, dtype=torch.float64, generator=generator)
    return TensorDataset(inputs, torch.tanh(inputs @ hidden))


def model_and_optimizer() -> tuple[nn.Sequential, torch.optim.Optimizer]:
    """Return a model of several buckets; a little decay keeps rounding differences from growing."""
    layers = [nn.Linear(12, 10), nn.Tanh(), nn.Linear(10, 10), nn.Tanh(), nn.Linear(10, 3)]
    model = nn.Sequential(*layers).double()
    return model, torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-3)


def warm_up() -> None:
    """Make torch import what it imports only when an optimizer is used; without backward, which could begin threads."""
    model, optimizer = model_and_optimizer()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    optimizer.zero_grad()


def loss_of(model: nn.Module, inputs: Tensor, outputs: Tensor) -> Tensor:
    """Return the mean squared error over a batch."""
    return nn.functional.mse_loss(model(inputs), outputs)


def train(folder: Path) -> None:
    """Train until the file ``last-epoch`` names the epoch that is next; then leave the parameters in the folder."""
    logging.basicConfig(level=logging.INFO)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    buckets.BUCKET_BYTES = _BUCKET_BYTES
    dataset = data()
    some = TensorDataset(*(each[:_EVALUATED] for each in dataset.tensors))
    with omnilearn.Session(seed=SEED) as session:
        listen_for_faults(session, folder / f"{os.environ['OMNILEARN_WORKER']}.faults")
        model, optimizer = model_and_optimizer()
        session.manage(model, optimizer)
        for epoch in session.epochs(_NEVER):
            if epoch >= last_epoch(folder):
                break
            for inputs, outputs in session.batches(dataset, micro_batch=_MICRO_BATCH):
                time.sleep(_SECONDS_PER_SAMPLE * len(inputs))
                session.step(partial(loss_of, model), inputs, outputs)
            session.evaluate(some, lambda x, y: {"error": ((model(x) - y) ** 2).sum(), "count": len(x)})
        progress = session._rounds.progress
        assert (progress.samples, progress.lost, progress.doubled) == (last_epoch(folder) * SAMPLES, 0, 0), progress
    torch.save(model.state_dict(), folder / f"{os.environ['OMNILEARN_WORKER']}.pt")


def last_epoch(folder: Path) -> int:
    """Return the epoch to stop before; the test names one that nobody has reached."""
    file = folder / "last-epoch"
    return int(file.read_text(encoding="ascii")) if file.exists() else _NEVER


def listen_for_faults(session: omnilearn.Session, file: Path) -> None:
    """Arm the faults that the file names whenever SIGUSR2 comes: a process is too dear to be started for each."""
    armed = session._faults._waiting

    def arm(_number: int, _frame: FrameType | None) -> None:
        # Without the lock: the thread that is interrupted here may hold it, and an append is atomic.
        armed.extend(faults.Faults(file.read_text(encoding="ascii"))._waiting)

    signal.signal(signal.SIGUSR2, arm)


def train_alone(epochs: int) -> dict[str, Tensor]:
    """Return the parameters after so many epochs of plain torch in one process."""
    torch.manual_seed(SEED)
    model, optimizer = model_and_optimizer()
    inputs, outputs = data().tensors
    for epoch in range(epochs):
        order = epoch_order(SAMPLES, SEED, epoch, shuffle=True)
        for begin in range(0, SAMPLES, GLOBAL_BATCH):
            chosen = order[begin : begin + GLOBAL_BATCH]
            optimizer.zero_grad()
            loss_of(model, inputs[chosen], outputs[chosen]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return model.state_dict()
