"""Auto with real processes, run as `omnilearn run` does, and exchanges that are slow or fast by themselves."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

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


def played(folder: Path, rows: int, seconds: float, steps: int, *faults: Fault) -> RunReport:
    command = ["python", "train_wide.py", str(rows), str(seconds), str(steps)]
    spec: dict[str, Any] = {"containers": [{"name": "trainer", "command": command}]}
    job = OmniLearnJob.from_manifest(
        {
            "apiVersion": "omnilearn.dev/v1alpha1",
            "kind": "OmniLearnJob",
            "metadata": {"name": "job"},
            "spec": {
                "strategy": {"type": "Auto"},
                "batch": {"global": BATCH, "law": "Uniform"},
                "workers": [{"name": "w", "replicas": 2, "template": {"spec": spec}}],
            },
        }
    )
    options = RunOptions(SCRIPTS, folder / "out", faults, timeout=400.0, threads=1, grace_seconds=10.0)
    report = run_job(job, options, Console(file=StringIO(), width=200))
    assert report.state is State.COMPLETE, report.why
    assert report.samples == BATCH * steps
    assert (report.audit.lost, report.audit.doubled, report.audit.findings) == (0, 0, [])
    assert report.ledger is not None
    assert (report.ledger.lost, report.ledger.doubled, report.ledger.agree) == (0, 0, True)
    assert len(set(report.parameter_hash.values())) == 1
    return report


def test_a_large_model_goes_on_with_local_steps_through_a_kill_a_join_and_another_coordinator(tmp_path: Path) -> None:
    report = played(
        tmp_path, 1_500_000, 0.0, 1200,
        Fault(Moment(step=400), Do.STOP_COORDINATOR),
        Fault(Moment(seconds=60.0), Do.START_COORDINATOR),
    )  # fmt: skip
    assert report.strategy is not None
    assert report.strategy.type is StrategyType.LOCAL_SGD


def test_a_small_model_stays_synchronous(tmp_path: Path) -> None:
    report = played(tmp_path, 64, 0.05, 200)
    assert report.strategy is not None
    assert report.strategy.type is StrategyType.SYNCHRONOUS
    chosen = [event.sentence for event in report.events if event.kind == "chosen"]
    assert len(chosen) == 1
