"""Faults against a job of every other strategy: nothing is lost or doubled, members agree, the job comes to its end.

`FAULTS=300 pytest tests/chaos/test_strategies.py` plays more of them, with all kinds of staleness.
"""

from __future__ import annotations

import os
import random

import pytest

pytest.importorskip("torch", reason="the workers need torch")

from omnilearn_core.api.strategy import (
    Asynchronous,
    Hierarchical,
    LocalRule,
    LocalSGD,
    LocalSteps,
    Outer,
    Sampling,
    Staleness,
    Strategy,
    StrategyType,
)
from omnilearn_runtime.faults import Point

from .driver import Run, run
from .sequence import Fault, kills_with_a_server, sequence
from .verdict import Traces

FAULTS = int(os.environ.get("FAULTS", "6"))
SEED = int(os.environ.get("SEED", "2"))

# What happens only where gradients are reduced while they are computed, and where there is a tail
_OF_SYNCHRONOUS = frozenset({Point.FIRST_BUCKET, Point.CLAIMED})
# What does not happen where a server applies gradients
_OF_REDUCTIONS = _OF_SYNCHRONOUS | {
    Point.COMPUTING, Point.REDUCING, Point.BEFORE_UPDATE, Point.AFTER_UPDATE, Point.SWITCHING,
}  # fmt: skip
# What does not happen to a server that computes nothing itself
_OF_WORKERS = frozenset({Point.LEASED, Point.PUSHING})


def served(staleness: Staleness, bound: int | None = None, server_group: str | None = None) -> Strategy:
    options = Asynchronous(staleness=staleness, bound=bound, server_group=server_group)
    return Strategy(type=StrategyType.ASYNCHRONOUS, asynchronous=options)


STRATEGIES = {
    "local-sgd": Strategy(type=StrategyType.LOCAL_SGD, local_sgd=LocalSGD(batch=2, outer=Outer.NESTEROV)),
    "shares": Strategy(type=StrategyType.LOCAL_SGD, local_sgd=LocalSGD(steps=LocalSteps.SHARES, interval=4)),
    "auto": Strategy(type=StrategyType.AUTO),
    "fedlalr": Strategy(type=StrategyType.LOCAL_SGD, local_sgd=LocalSGD(batch=2, rule=LocalRule.FEDLALR)),
    "bvr": Strategy(type=StrategyType.LOCAL_SGD, local_sgd=LocalSGD(batch=2, rule=LocalRule.BVR)),
    "biased": Strategy(type=StrategyType.LOCAL_SGD, local_sgd=LocalSGD(batch=2, sampling=Sampling.LOSS_BIASED)),
    "hierarchical": Strategy(
        type=StrategyType.HIERARCHICAL, hierarchical=Hierarchical(interval=2, max_interval=4, warmup_epochs=0)
    ),
    "server-apart": served(Staleness.UNBOUNDED, server_group="s"),
    "unbounded": served(Staleness.UNBOUNDED),
    "bounded": served(Staleness.BOUNDED, 2),
    "delay-adaptive": served(Staleness.DELAY_ADAPTIVE),
    "ringmaster": served(Staleness.RINGMASTER, 3),
    "ringleader": served(Staleness.RINGLEADER),
    "rennala": served(Staleness.RENNALA, 3),
}
# For these there is no time in every run of all tests.
_IN_LONG_RUNS = ("bounded", "delay-adaptive", "ringleader", "rennala")
PLAYED = {name: each for name, each in STRATEGIES.items() if "FAULTS" in os.environ or name not in _IN_LONG_RUNS}


def faults_for(strategy: Strategy) -> list[Fault]:
    """Return what is played: for a job with a server, half of it is what happens to servers."""
    if strategy.type is not StrategyType.ASYNCHRONOUS:
        return [fault for fault in sequence(SEED, 300) if fault.point not in _OF_SYNCHRONOUS][:FAULTS]
    chance = random.Random(f"{SEED} {strategy.asynchronous}")
    own = kills_with_a_server(chance)
    chance.shuffle(own)
    if strategy.asynchronous is not None and strategy.asynchronous.server_group is not None:
        own = [fault for fault in own if fault.point not in _OF_WORKERS]
    others = [fault for fault in sequence(SEED, 300) if fault.point not in _OF_REDUCTIONS]
    return [*own[: FAULTS // 2], *others[: FAULTS - FAULTS // 2]]


@pytest.fixture(scope="module", params=PLAYED.values(), ids=list(PLAYED))
def hurt(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A job that went through some faults to its end."""
    return run(tmp_path_factory.mktemp("chaos"), faults_for(request.param), SEED, request.param)


def test_a_job_of_any_strategy_loses_and_doubles_nothing_and_its_members_agree(hurt: Run) -> None:
    traces = Traces.read(hurt.folder / "jsonl")
    audit = traces.audit()
    assert audit.clean, audit.findings
    assert audit.missing_rounds == 0
    assert list(traces.disagreements()) == []
    assert list(traces.strays()) == []
    assert len(hurt.finished) == 4, "all but the one that was killed while it finished"
