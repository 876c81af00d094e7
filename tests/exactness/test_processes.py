"""Real processes, run as `omnilearn run` does: a worker that is told to go, and one whose script fails."""

from __future__ import annotations

import importlib.util
import json
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import nn

from omnilearn_cli.local.ending import State
from omnilearn_cli.local.report import RunReport
from omnilearn_cli.local.run import run_job
from omnilearn_cli.local.run_options import RunOptions
from omnilearn_core.api.job import OmniLearnJob
from plain import BATCH, backward, global_batches

SCRIPTS = Path(__file__).parents[1] / "scripts"


def script() -> Any:
    spec = importlib.util.spec_from_file_location("train_mlp", SCRIPTS / "train_mlp.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def played(folder: Path, how: str) -> RunReport:
    container = {"name": "trainer", "command": ["python", "train_mlp.py", str(folder), "1", how]}
    group = {"name": "w", "replicas": 2, "template": {"spec": {"containers": [container]}}}
    job = OmniLearnJob.from_manifest(
        {
            "apiVersion": "omnilearn.dev/v1alpha1",
            "kind": "OmniLearnJob",
            "metadata": {"name": "job"},
            "spec": {"batch": {"global": BATCH}, "workers": [group]},
        }
    )
    options = RunOptions(SCRIPTS, folder / "out", timeout=240.0, threads=1, grace_seconds=10.0)
    return run_job(job, options, Console(file=StringIO(), width=200))


def in_one_process() -> list[float]:
    module = script()
    model, (x, y) = module.network(), module.dataset().tensors
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(module.EPOCHS):
        for at in global_batches(module.SIZE, epoch):
            optimizer.zero_grad()
            backward(nn.functional.mse_loss(model(x[at]), y[at]))
            optimizer.step()
    values: list[float] = torch.cat([each.detach().reshape(-1) for each in model.parameters()]).tolist()
    return values


def check(folder: Path, report: RunReport) -> None:
    assert report.state is State.COMPLETE, report.why
    trained = json.loads((folder / "trained.json").read_text(encoding="utf-8"))
    assert max(abs(one - other) for one, other in zip(trained, in_one_process(), strict=True)) < 1e-10
    assert (report.audit.lost, report.audit.doubled, report.audit.findings) == (0, 0, [])


def test_a_worker_told_to_go_commits_its_step_exits_143_and_disturbs_nobody(tmp_path: Path) -> None:
    report = played(tmp_path, "terminate")
    check(tmp_path, report)
    exits = [event.sentence for event in report.events if event.kind == "Exited" and event.worker == "job-w-1"]
    assert exits[0] == "job-w-1 exited with 143 (preempted)"
    assert report.failures == 0
    texts = [file.read_text(encoding="utf-8") for file in (tmp_path / "out" / "workers").iterdir()]
    lines = [json.loads(line) for text in texts for line in text.splitlines()]
    assert {line["round"] for line in lines if "job-w-1" in line["members"]} >= set(range(1, 10))
    assert not [line for line in lines if line["disturbed"]]


def test_a_script_that_fails_is_told_with_its_last_lines_and_takes_only_its_worker_out(tmp_path: Path) -> None:
    report = played(tmp_path, "raise")
    check(tmp_path, report)
    told = [event.sentence for event in report.events]
    assert any("job-w-1 failed: " in each and "KeyError: 'a sample without a label'" in each for each in told)
    assert not any(event.worker == "job-w-0" and "failed" in event.sentence for event in report.events)
