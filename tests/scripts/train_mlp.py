"""A small training that tests run as real processes: `train_mlp.py FOLDER WORKER HOW`, where WORKER meets its fate."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import TensorDataset

import omnilearn_runtime as omnilearn

EPOCHS, SIZE = 6, 44


def dataset() -> TensorDataset:
    generator = torch.Generator().manual_seed(5)
    x, y = (torch.randn(SIZE, width, generator=generator, dtype=torch.float64) for width in (3, 2))
    return TensorDataset(x, y)


def network() -> nn.Module:
    generator = torch.Generator().manual_seed(6)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / 2)
    return model


def await_end(once: Path) -> None:
    """Wait until the launcher has seen the end of the struck process: the job must not be over before."""
    limit = time.monotonic() + 30.0
    while once.exists() and Path(f"/proc/{once.read_text(encoding='ascii')}").exists() and time.monotonic() < limit:
        time.sleep(0.05)


def main(folder: Path, struck: str, how: str) -> None:
    once = folder / "struck"
    mine = os.environ["OMNILEARN_WORKER"].endswith(struck) and not once.exists()
    if mine and how == "terminate":
        os.environ["OMNILEARN_FAULTS"] = "computing@9:terminate"
    with omnilearn.Session() as session:
        model = network()
        session.manage(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
        for x, y in session.batches(dataset(), epochs=EPOCHS):
            if mine and session.step_number >= 8:
                once.write_text(str(os.getpid()), encoding="ascii")
                if how == "raise":
                    raise KeyError("a sample without a label")
            if session.step_number == 20:
                await_end(once)
            session.step(nn.functional.mse_loss(model(x), y))
        if session.is_lead:
            values = torch.cat([each.detach().reshape(-1) for each in model.parameters()]).tolist()
            (folder / "trained.json").write_text(json.dumps(values), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
