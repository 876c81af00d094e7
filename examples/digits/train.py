"""Train a small convolutional net on scikit-learn's digits: no download, a minute on two cores.

Run it alone (`python train.py`), or on several unlike workers (`omnilearn run job.yaml`, `kubectl apply -f job.yaml`):
the script is the same. EPOCHS, LEARNING_RATE, WIDTH and SEED can be set in the environment.
"""

import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset

import omnilearn_runtime as omnilearn

EPOCHS = int(os.environ.get("EPOCHS", "30"))
LEARNING_RATE = float(os.environ.get("LEARNING_RATE", "0.05"))
WIDTH = int(os.environ.get("WIDTH", "48"))
SEED = int(os.environ.get("SEED", "0"))


def digits() -> tuple[TensorDataset, TensorDataset]:
    """Return 1 437 images of 8 × 8 pixels to train with, and 360 others to test with."""
    # scikit-learn's file of them, read without importing scikit-learn: that takes half as long as importing torch.
    package = find_spec("sklearn")
    if package is None or package.origin is None:
        raise SystemExit("the digits are scikit-learn's: pip install scikit-learn")
    table = torch.from_numpy(np.loadtxt(Path(package.origin).parent / "datasets/data/digits.csv.gz", delimiter=","))
    images, labels = table[:, :-1].float().view(-1, 1, 8, 8) / 16, table[:, -1].long()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    images, labels = images[order], labels[order]
    return TensorDataset(images[:1437], labels[:1437]), TensorDataset(images[1437:], labels[1437:])


def network() -> nn.Module:
    """Return the net. GroupNorm, because what BatchNorm learns depends on how a batch is split."""
    return nn.Sequential(
        nn.Conv2d(1, WIDTH, 3, padding=1),
        nn.GroupNorm(8, WIDTH),
        nn.ReLU(),
        nn.Conv2d(WIDTH, 2 * WIDTH, 3, padding=1),
        nn.GroupNorm(8, 2 * WIDTH),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(2 * WIDTH, 2 * WIDTH, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * WIDTH, 10),
    )


def main() -> None:
    """Train, and evaluate after every epoch."""
    train, test = digits()
    with omnilearn.Session(seed=SEED, global_batch=256) as session:
        model = network().to(session.device)
        optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9, weight_decay=5e-4)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, LEARNING_RATE, total_steps=EPOCHS * -(-len(train) // session.global_batch)
        )
        session.manage(model, optimizer, scheduler=scheduler)

        # One loss for each sample, as a function: with a mean, and with its value, some strategies know too little.
        def losses(images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(model(images), labels, reduction="none")

        def correct(images: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"correct": (model(images).argmax(1) == labels).sum()}

        for epoch in session.epochs(EPOCHS):
            for images, labels in session.batches(train):
                session.step(losses, images, labels)
            accuracy = session.evaluate(test, correct)["correct"] / len(test)
            session.log(accuracy=accuracy)
            if session.is_lead:
                print(f"epoch {epoch + 1:>3} of {EPOCHS}: accuracy {accuracy:.1%}")


if __name__ == "__main__":
    main()
