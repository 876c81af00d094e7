"""A training that tests run as real processes: `train_wide.py ROWS SECONDS STEPS`.

A table of ROWS rows has to be exchanged, and every micro-batch takes at least SECONDS to compute.
"""

from __future__ import annotations

import sys
import time

import torch
from torch import nn
from torch.utils.data import TensorDataset

import omnilearn_runtime as omnilearn

WIDTH, BATCH = 8, 8


def main(rows: int, seconds: float, steps: int) -> None:
    with omnilearn.Session() as session:
        model = nn.Embedding(rows, WIDTH)
        session.manage(model, torch.optim.SGD(model.parameters(), lr=0.1))
        for (index,) in session.batches(TensorDataset(torch.arange(BATCH * steps))):
            time.sleep(seconds)
            session.step((model(index % rows) ** 2).mean())


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
