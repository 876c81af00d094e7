"""Hundreds of faults against one job, and what must be true afterwards.

`FAULTS=1000 pytest tests/chaos/test_chaos.py` plays as many as one likes; `SEED` chooses another sequence. The recovery
times go to out/chaos.json.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the workers need torch")

from omnilearn_runtime.faults import Point  # noqa: E402 - only with torch

from .driver import Run, deadly, run  # noqa: E402
from .sequence import OF_THE_SERVER, WITH_A_SERVER, Scene, sequence  # noqa: E402
from .verdict import Traces, growth  # noqa: E402
from .work import train_alone  # noqa: E402

FAULTS = int(os.environ.get("FAULTS", "64"))
SEED = int(os.environ.get("SEED", "1"))
OUT = Path(__file__).parents[2] / "out"

# What happens only where a server applies gradients: test_strategies.py
OF_A_SERVER = frozenset({*OF_THE_SERVER, *WITH_A_SERVER})

# What may be in flight at the end: a formation and a group that is being let go, each with a few threads and sockets.
THREADS, SOCKETS, MEBIBYTES = 12, 24, 32.0


@pytest.fixture(scope="module")
def hurt(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A job that went through all faults to its end; that it came there is the first thing to be tested."""
    done = run(tmp_path_factory.mktemp("chaos"), sequence(SEED, FAULTS), SEED)
    done.write(OUT / "chaos.json")
    return done


@pytest.fixture(scope="module")
def traces(hurt: Run) -> Traces:
    return Traces.read(hurt.folder / "jsonl")


def test_a_sequence_kills_at_every_point_and_has_every_scene() -> None:
    faults = sequence(SEED, FAULTS)
    assert sum(fault.count for fault in faults) >= FAULTS
    assert deadly(faults) | {Point.FINISHING} == set(Point) - OF_A_SERVER
    assert {fault.scene for fault in faults} == set(Scene)


def test_a_seed_gives_one_sequence() -> None:
    assert sequence(SEED, 200) == sequence(SEED, 200)
    assert sequence(SEED, 200) != sequence(SEED + 1, 200)


def test_the_job_comes_to_its_end_through_all_faults(hurt: Run) -> None:
    assert hurt.faults > FAULTS
    assert len(hurt.finished) == 4, "all but the one that was killed while it finished"


def test_no_sample_is_lost_or_doubled(traces: Traces) -> None:
    audit = traces.audit()
    assert audit.clean, audit.findings
    assert audit.missing_rounds == 0


def test_members_are_equal_after_every_round(traces: Traces) -> None:
    assert list(traces.disagreements()) == []


def test_who_committed_what_did_not_last_is_healed_before_it_goes_on(traces: Traces) -> None:
    assert list(traces.strays()) == []


def test_the_parameters_are_those_of_one_process(hurt: Run) -> None:
    alone = train_alone(hurt.epochs)
    for worker in hurt.finished:
        trained = torch.load(hurt.folder / f"{worker}.pt", weights_only=True)
        assert max(float((trained[name] - alone[name]).abs().max()) for name in alone) < 1e-10


def test_threads_sockets_and_memory_stay_flat(hurt: Run) -> None:
    grown = growth(hurt.footprints)
    assert grown.threads <= THREADS
    assert grown.sockets <= SOCKETS
    assert grown.memory <= MEBIBYTES
