"""What the pods of `benchmarks.pods` train: a small net on synthetic pictures. Every step is a line with its time."""

import os
import time
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import omnilearn_runtime as omnilearn

SAMPLES = 8192
BATCH = int(os.environ.get("BATCH", "512"))


class Pictures:
    """A long dataset; a whole batch is taken by one indexing, so that loading costs little."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.images = torch.randn(SAMPLES, 1, 28, 28, generator=generator)
        self.labels = torch.randint(0, 10, (SAMPLES,), generator=generator)

    def __len__(self) -> int:
        return 4_000_000 // SAMPLES * SAMPLES

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.images[index % SAMPLES], self.labels[index % SAMPLES]

    def __getitems__(self, indices: list[int]) -> tuple[Tensor, Tensor]:
        where = torch.tensor(indices) % SAMPLES
        return self.images[where], self.labels[where]


def whole(batch: Any) -> Any:
    """Return a batch that is one already."""
    return batch


def network() -> nn.Module:
    """Return a net of 229 thousand parameters (0.9 MB)."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(),
        nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


def main() -> None:
    """Train until the job is deleted."""
    with omnilearn.Session(global_batch=BATCH) as session:
        model = network().to(session.device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        session.manage(model, optimizer)
        last = 0
        for images, labels in session.batches(Pictures(), epochs=1000, shuffle=False, collate=whole):
            session.step(F.cross_entropy(model(images), labels))
            if session.step_number != last:
                last = session.step_number
                print(f"step {last} at {time.time():.4f}", flush=True)


if __name__ == "__main__":
    main()
