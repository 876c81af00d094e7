"""One worker of `benchmarks.papers`: the real runtime, real gradients, and a pace that stands for its hardware.

Forked by the zygote of the chaos tests. It computes for real, which takes about a millisecond, and then sleeps until as
much time has passed as a worker of its speed would have needed. So workers as unlike as 32 : 1 fit on two cores.
"""

from __future__ import annotations

import json
import logging
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import omnilearn_runtime as omnilearn

from .papers_subjects import Samples, Subject, skewed, subject_of

ORDER = "PAPERS_ORDER"
_FOR_EVER = 10**6
_SNAPSHOT_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Order:
    """What a worker is to do."""

    subject: str
    seed: int
    rate: float
    speed: float
    """Samples per second."""

    rank: int
    workers: int
    samples: int
    """Samples of a pass over the data; beyond the data set, it is used again."""

    skew: float = 0.0
    """Concentration of the Dirichlet distribution that divides the labels among the workers; 0: nobody has its own."""

    def to_environment(self) -> dict[str, str]:
        """Return it as a variable for the worker."""
        return {ORDER: json.dumps(asdict(self))}


def warm_up() -> None:
    """Read the data once for all workers, and have torch import what optimizers need."""
    for name in ("pictures", "text"):
        model = subject_of(name).network()
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def train(folder: Path) -> None:
    """Train until killed."""
    logging.basicConfig(level=logging.INFO)
    order = Order(**json.loads(os.environ[ORDER]))
    subject = subject_of(order.subject)
    with omnilearn.Session(seed=order.seed) as session:
        model = subject.network()
        session.manage(model, torch.optim.SGD(model.parameters(), lr=order.rate))
        diary = Diary(folder / "snapshots", os.environ["OMNILEARN_WORKER"], os.environ["OMNILEARN_ATTEMPT"])

        def losses(inputs: Tensor, outputs: Tensor) -> Tensor:
            """Return the losses when a worker of this speed would have them and their gradients."""
            due = time.monotonic() + len(inputs) / order.speed
            found = subject.losses(model, inputs, outputs)
            time.sleep(max(0.0, due - time.monotonic()))
            return found

        for inputs, outputs in session.batches(_data(subject, order), epochs=_FOR_EVER, collate=_as_it_is):
            if session.is_lead:
                diary.look(session.step_number, model)
            session.step(losses, inputs, outputs)


def _data(subject: Subject, order: Order) -> Samples:
    """Return this worker's data: the same for all, or what is its own behind the numbers that all share."""
    everything = torch.arange(len(subject.outputs))
    if order.skew:
        everything = skewed(subject.outputs, order.workers, order.skew, order.seed)[order.rank]
    # Otherwise the numbers of a short pass would be the first of the data set.
    shuffled = everything[torch.randperm(len(everything), generator=torch.Generator().manual_seed(order.seed))]
    return Samples(subject, shuffled, order.samples)


def _as_it_is(batch: Any) -> Any:
    return batch


class Diary:
    """Models as they were, with their times: they are looked at when the run is over, because that takes time."""

    def __init__(self, folder: Path, worker: str, attempt: str) -> None:
        folder.mkdir(exist_ok=True)
        self._times, self._models = (folder / f"{worker}-{attempt}.{kind}" for kind in ("jsonl", "bin"))
        self._step, self._last = -1, 0.0

    def look(self, step: int, model: nn.Module) -> None:
        """Write the model down if it was just updated, and the last time is a while ago."""
        updated, self._step = step != self._step, step
        if not updated or time.time() - self._last < _SNAPSHOT_SECONDS:
            return
        self._last = time.time()
        with self._models.open("ab", buffering=0) as models:
            models.write(flat_of(model).numpy().tobytes())
        with self._times.open("a", encoding="ascii") as times:
            times.write(json.dumps({"time": self._last, "step": step}) + "\n")


def flat_of(model: nn.Module) -> Tensor:
    """Return all parameters in a row."""
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])


@torch.no_grad()
def fill(model: nn.Module, flat: Tensor) -> None:
    """Set all parameters from a row."""
    for parameter in model.parameters():
        parameter.copy_(flat[: parameter.numel()].view_as(parameter))
        flat = flat[parameter.numel() :]
