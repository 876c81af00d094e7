"""Auto with real processes, run as `omnilearn run` does, whose exchanges are slow or fast."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from pathlib import Path

from rich.console import Console

from omnilearn_cli.local.ending import State
from omnilearn_cli.local.faults import Do, Fault, Moment
from omnilearn_cli.local.report import RunReport
from omnilearn_cli.local.run import run_job
from omnilearn_cli.local.run_options import RunOptions
from omnilearn_core.api.job import OmniLearnJob
from omnilearn_core.api.strategy import StrategyType

SCRIPTS = Path(__file__).parents[1] / "scripts"
BATCH = 8


def played(
    folder: Path, exchange: float, compute: float, steps: int, faults: Sequence[Fault] = (), struck: str = ""
) -> RunReport:
    """Run two workers, one of which has fault points."""
    command = ["python", "train_slowly.py", str(exchange), str(compute), str(steps)]
    groups = [
        {"name": name, "template": {"spec": {"containers": [{"name": "trainer", "command": command, "env": env}]}}}
        for name, env in (("w", []), ("x", [{"name": "OMNILEARN_FAULTS", "value": struck}]))
    ]
    job = OmniLearnJob.from_manifest(
        {
            "apiVersion": "omnilearn.dev/v1alpha1",
            "kind": "OmniLearnJob",
            "metadata": {"name": "job"},
            "spec": {
                "strategy": {"type": "Auto"},
                "batch": {"global": BATCH, "law": "Uniform"},
                "workers": groups,
            },
        }
    )
    options = RunOptions(SCRIPTS, folder / "out", tuple(faults), timeout=400.0, threads=1, grace_seconds=10.0)
    report = run_job(job, options, Console(file=StringIO(), width=200))
    assert report.state is State.COMPLETE, report.why
    assert report.samples == BATCH * steps
    assert (report.audit.lost, report.audit.doubled, report.audit.findings) == (0, 0, [])
    assert report.ledger is not None
    assert (report.ledger.lost, report.ledger.doubled, report.ledger.agree) == (0, 0, True)
    assert len(set(report.parameter_hash.values())) == 1
    return report


def of_kind(report: RunReport, kind: str) -> list[str]:
    return [event.sentence for event in report.events if event.kind == kind]


def test_on_a_slow_network_it_goes_on_with_local_steps_though_a_worker_dies_at_the_switch_and_the_coordinator_is_lost(
    tmp_path: Path,
) -> None:
    coordinator = (Fault(Moment(seconds=28.0), Do.STOP_COORDINATOR), Fault(Moment(seconds=30.0), Do.START_COORDINATOR))
    report = played(tmp_path, 0.2, 0.02, 1000, coordinator, "built@3:kill")
    assert report.strategy is not None
    assert report.strategy.type is StrategyType.LOCAL_SGD
    assert len(of_kind(report, "chosen")) == 1
    assert len(of_kind(report, "adopted")) == 1
    # It was lost before it could switch, and has joined what the others had become.
    assert report.restarts == 1
    assert report.steps == 1000


def test_on_a_fast_network_it_stays_synchronous(tmp_path: Path) -> None:
    report = played(tmp_path, 0.0, 0.2, 100)
    assert report.strategy is not None
    assert report.strategy.type is StrategyType.SYNCHRONOUS
    assert len(of_kind(report, "chosen")) == 1
