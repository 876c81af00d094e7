"""The training of examples/digits as one process would do it, without the runtime; for `benchmarks.accuracy`."""

from __future__ import annotations

import hashlib
import runpy
from pathlib import Path

import torch
import torch.nn.functional as F

SCRIPT = Path(__file__).parents[1] / "examples" / "digits" / "train.py"
GLOBAL_BATCH = 256


def train(seed: int, epochs: int, pieces: int = 1) -> list[float]:
    """Return the accuracy after each epoch of a plain PyTorch loop: same net, data, optimizer, schedule and order.

    In several pieces, a batch's gradient is the sum of its pieces' gradients: the same but for rounding.
    """
    example = runpy.run_path(str(SCRIPT), run_name="digits")
    training, test = example["digits"]()
    torch.set_num_threads(1)  # two threads that wait for each other on a busy core take many times as long
    torch.manual_seed(seed)
    model = example["network"]()
    rate, steps = example["LEARNING_RATE"], -(-len(training) // GLOBAL_BATCH)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=epochs * steps)
    images, labels = training.tensors
    curve = []
    for epoch in range(epochs):
        samples = order(len(training), seed, epoch)
        for begin in range(0, len(training), GLOBAL_BATCH):
            batch = samples[begin : begin + GLOBAL_BATCH]
            optimizer.zero_grad()
            for piece in torch.tensor_split(batch, pieces):
                loss = F.cross_entropy(model(images[piece]), labels[piece], reduction="sum")
                torch.autograd.backward(loss / len(batch))
            optimizer.step()
            scheduler.step()
        with torch.no_grad():
            correct = (model(test.tensors[0]).argmax(1) == test.tensors[1]).sum()
        curve.append(int(correct) / len(test))
    return curve


def order(size: int, seed: int, epoch: int) -> torch.Tensor:
    """Return the order of an epoch's samples, which a job derives from its seed in this way."""
    digest = hashlib.blake2b(f"{seed}:{epoch}".encode(), digest_size=8).digest()
    return torch.randperm(size, generator=torch.Generator().manual_seed(int.from_bytes(digest, "little")))
