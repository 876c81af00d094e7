"""Faults against a job of every other strategy: nothing is lost or doubled, members agree, the job comes to its end.

`FAULTS=300 pytest tests/chaos/test_strategies.py` plays more of them.
"""

from __future__ import annotations

import os

import pytest

pytest.importorskip("torch", reason="the workers need torch")

from omnilearn_core.api.strategy import LocalRule, LocalSGD, LocalSteps, Outer, Strategy, StrategyType
from omnilearn_runtime.faults import Point

from .driver import Run, run
from .sequence import sequence
from .verdict import Traces

FAULTS = int(os.environ.get("FAULTS", "8"))
SEED = int(os.environ.get("SEED", "2"))

# What happens only where gradients are reduced while they are computed, and where there is a tail
_OF_SYNCHRONOUS = frozenset({Point.FIRST_BUCKET, Point.CLAIMED})

STRATEGIES = {
    "local-sgd": Strategy(type=StrategyType.LOCAL_SGD, local_sgd=LocalSGD(batch=2, outer=Outer.NESTEROV)),
    "shares": Strategy(type=StrategyType.LOCAL_SGD, local_sgd=LocalSGD(steps=LocalSteps.SHARES, interval=4)),
    "auto": Strategy(type=StrategyType.AUTO),
    "fedlalr": Strategy(type=StrategyType.LOCAL_SGD, local_sgd=LocalSGD(batch=2, rule=LocalRule.FEDLALR)),
}


@pytest.fixture(scope="module", params=STRATEGIES.values(), ids=list(STRATEGIES))
def hurt(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A job that went through some faults to its end."""
    possible = [fault for fault in sequence(SEED, 300) if fault.point not in _OF_SYNCHRONOUS]
    return run(tmp_path_factory.mktemp("chaos"), possible[:FAULTS], SEED, request.param)


def test_a_job_of_any_strategy_loses_and_doubles_nothing_and_its_members_agree(hurt: Run) -> None:
    traces = Traces.read(hurt.folder / "jsonl")
    audit = traces.audit()
    assert audit.clean, audit.findings
    assert audit.missing_rounds == 0
    assert list(traces.disagreements()) == []
    assert list(traces.strays()) == []
    assert len(hurt.finished) == 4, "all but the one that was killed while it finished"
