"""Faults by the dozen against a real job on real pods, and what must be true afterwards.

`make chaos-cluster` plays a hundred; `FAULTS` and `SEED` choose others. Figures and a picture go to out/.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import faults

from .chaos import report
from .chaos.driver import Driver, Run
from .chaos.log import Log
from .chaos.manifests import chaos_job, priorities, script
from .chaos.plan import HURRY, OF_THE_NODE, Kind, plan
from .chaos.verdict import complaints, contradictions, recoveries
from .conftest import openly
from .kube import Kube
from .storage import make_claim

# Beside other tests there is time for a few: of a seed that has seven kinds among them, and close to each other.
FAULTS = int(os.environ.get("FAULTS", "7"))
_COMPARED_FROM = 20
SEED = int(os.environ.get("SEED", "3" if FAULTS < _COMPARED_FROM else "39"))
OUT = Path(__file__).parents[2] / "out"
JOB, REFERENCE = "chaos", "calm"

# With fewer faults than are compared, that training comes to something is shown by the accuracy alone.
_BRISKLY = 0.85
_CALM_EPOCHS, _CALM_SECONDS = 40, 300
# Five of 360 images: what the last epoch's accuracy varies by from run to run
_NOISE = 0.015


@pytest.fixture(scope="module")
def ready(shared_kube: Kube) -> Iterator[Kube]:
    """A namespace with all that the job needs; whatever was cut is whole again afterwards."""
    for each in (*priorities(), script()):
        shared_kube.apply(each)
    yield shared_kube
    if shared_kube.cluster.provider == "node":
        faults.mend_all()
    shared_kube.run("delete", "priorityclass", *(each["metadata"]["name"] for each in priorities()))


@pytest.fixture(scope="module")
def calm(ready: Kube) -> float | None:
    """The accuracy of the same job without any fault, if there is time for it."""
    if FAULTS < _COMPARED_FROM:
        return None
    ready.apply(chaos_job(REFERENCE, make_claim(ready, REFERENCE), LAST_EPOCH=str(_CALM_EPOCHS)))
    ready.until("complete", lambda: ready.status(REFERENCE).get("phase") == "Complete", _CALM_SECONDS)
    accuracy: float = ready.status(REFERENCE)["logged"]["accuracy"]
    ready.run("delete", "olj", REFERENCE)
    return accuracy


@pytest.fixture(scope="module")
def traces(ready: Kube) -> Path | None:
    """Where the workers' traces are, if this machine can see it."""
    if ready.cluster.volumes is None:
        return None
    return ready.cluster.volumes / f"{ready.namespace}-{JOB}" / "traces"


@pytest.fixture(scope="module")
def hurt(ready: Kube, calm: float | None, traces: Path | None, request: pytest.FixtureRequest) -> Run:
    """A job that went through all faults to its end; that it came there is the first thing to be tested."""
    kinds = frozenset(Kind) - (frozenset() if ready.cluster.provider == "node" else OF_THE_NODE)
    if FAULTS < _COMPARED_FROM:
        # What a kubelet leaves that is killed while it starts pods is different every time: for long runs.
        kinds -= {Kind.KUBELET}
    ready.apply(chaos_job(JOB, make_claim(ready, JOB)))
    with openly(request):
        log = Log(FAULTS)
        driver = Driver(ready, JOB, log)
        try:
            driver.play(plan(SEED, FAULTS, kinds, _BRISKLY if FAULTS < _COMPARED_FROM else HURRY))
        finally:
            tell(driver.run, log, traces, calm)
    return driver.run


def tell(run: Run, log: Log, traces: Path | None, calm: float | None) -> None:
    """Show what has happened and write it down, also of a run that has failed."""
    log.table(run.strikes, run.began)
    times = recoveries(traces, run.strikes) if traces and run.strikes else []
    figures = report.summary(run, times, seed=SEED, calmAccuracy=calm)
    log.show(report.table(figures["kinds"]))
    report.write(OUT, figures)
    if traces and times:
        report.draw(OUT, run, traces, f"{figures['faults']} faults, seed {SEED}")


def test_nothing_is_lost_doubled_restarted_or_untold(hurt: Run) -> None:
    assert sum(strike.fault.count for strike in hurt.strikes) >= FAULTS
    assert list(complaints(hurt)) == []


def test_what_the_workers_wrote_down_agrees(hurt: Run, traces: Path | None) -> None:
    if traces is None:
        pytest.skip("the workers' traces are on a volume of the cluster's own")
    assert list(contradictions(traces)) == []


def test_the_accuracy_is_that_of_a_run_without_faults(hurt: Run, calm: float | None) -> None:
    assert hurt.last.accuracy is not None
    assert hurt.last.accuracy > (0.95 if calm is None else calm - _NOISE)
