"""A training that tests run as real processes: `train_slowly.py EXCHANGE COMPUTE STEPS`.

Every exchange takes at least EXCHANGE seconds, as on a slow network, and every micro-batch COMPUTE seconds.
"""

from __future__ import annotations

import sys
import time

import torch
from torch import nn
from torch.utils.data import TensorDataset

import omnilearn_runtime as omnilearn
from omnilearn_runtime.element import Whole
from omnilearn_runtime.reduction import Reduction
from omnilearn_runtime.waiting import Ending

BATCH = 8
_ALONE_UNTIL, _COMPANY_SECONDS = 100, 200.0


def slow_down(seconds: float) -> None:
    """Let every exchange of a model take so long."""
    finish = Reduction.finish

    def slowly(self: Reduction) -> tuple[Ending, Whole | None]:
        if self.begun and self.group.size > 1:
            time.sleep(seconds)
        return finish(self)

    Reduction.finish = slowly  # type: ignore[method-assign]


def await_company(session: omnilearn.Session) -> None:
    """Wait for a worker that was killed to be back: the job must not be over before."""
    membership, group = session._membership, session._membership.current
    if group is not None and group.size == 1 and session.step_number >= _ALONE_UNTIL:
        membership.wait(lambda: membership.ready_tag(group) != 0 or membership.is_superseded(group), _COMPANY_SECONDS)


def main(exchange: float, compute: float, steps: int) -> None:
    slow_down(exchange)
    with omnilearn.Session() as session:
        model = nn.Linear(1, 1)
        session.manage(model, torch.optim.SGD(model.parameters(), lr=0.1))
        for (x,) in session.batches(TensorDataset(torch.linspace(-1, 1, BATCH * steps).unsqueeze(1))):
            await_company(session)
            time.sleep(compute)
            session.step((model(x) ** 2).mean())


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
