"""Train a convolutional net on Fashion-MNIST: 60 000 pictures of 28 × 28 pixels, ten kinds of clothes.

The four files of the data set (train-images-idx3-ubyte.gz and so on) are read from the folder FASHION_MNIST, or from
where Debian's package dataset-fashion-mnist puts them. EPOCHS and LEARNING_RATE can be set in the environment.
"""

import gzip
import os
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import omnilearn_runtime as omnilearn

EPOCHS = int(os.environ.get("EPOCHS", "3"))
LEARNING_RATE = float(os.environ.get("LEARNING_RATE", "0.1"))
FOLDERS = [Path(os.environ.get("FASHION_MNIST", "fashion-mnist")), Path("/usr/share/datasets/fashion-mnist")]


def fashion(part: str) -> TensorDataset:
    """Return the pictures and labels of ``part``: train or t10k."""
    folder = next((each for each in FOLDERS if (each / f"{part}-images-idx3-ubyte.gz").exists()), None)
    if folder is None:
        sys.exit(
            "Fashion-MNIST is not here: set FASHION_MNIST to the folder with its four .gz files, or install Debian's "
            "package dataset-fashion-mnist"
        )
    images = numbers(folder / f"{part}-images-idx3-ubyte.gz", header=16).view(-1, 1, 28, 28)
    labels = numbers(folder / f"{part}-labels-idx1-ubyte.gz", header=8)
    return TensorDataset(images.float() / 255 - 0.2860, labels.long())


def numbers(file: Path, header: int) -> Tensor:
    """Return the bytes of an IDX file after its header."""
    return torch.frombuffer(bytearray(gzip.decompress(file.read_bytes())[header:]), dtype=torch.uint8)


def network() -> nn.Module:
    """Return the net."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.GroupNorm(8, 32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.GroupNorm(8, 64),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 7 * 7, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


def main() -> None:
    """Train, and evaluate after every epoch."""
    train, test = fashion("train"), fashion("t10k")
    with omnilearn.Session(global_batch=512) as session:
        model = network().to(session.device)
        optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9, weight_decay=1e-4)
        steps = EPOCHS * -(-len(train) // session.global_batch)
        session.manage(model, optimizer, scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps))

        def correct(images: Tensor, labels: Tensor) -> dict[str, Tensor]:
            return {"correct": (model(images).argmax(1) == labels).sum()}

        for epoch in session.epochs(EPOCHS):
            for images, labels in session.batches(train, micro_batch=256):
                session.step(F.cross_entropy(model(images), labels))
            accuracy = session.evaluate(test, correct)["correct"] / len(test)
            session.log(accuracy=accuracy)
            if session.is_lead:
                print(f"epoch {epoch + 1} of {EPOCHS}: accuracy {accuracy:.1%}")


if __name__ == "__main__":
    main()
