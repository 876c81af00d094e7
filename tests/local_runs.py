"""Stand-ins for tests of local runs: a coordinator that says what a test wants, and jobs of a few lines of Python."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from omnilearn_cli.local.crew import Tokens
from omnilearn_cli.local.ending import Verdict
from omnilearn_cli.local.events import EventLog
from omnilearn_cli.local.faults import Fault
from omnilearn_cli.local.report import RunReport
from omnilearn_cli.local.run import Address, run_job
from omnilearn_cli.local.run_options import RunOptions
from omnilearn_cli.local.view import DoneFacts, Member, View
from omnilearn_core.api.job import OmniLearnJob

ENTERED = View(
    phase="Running",
    generation=1,
    members=(Member("job-w-0", share=8),),
    step=1,
    joined=frozenset({"job-w-0", "job-w-1"}),
)
FACTS = DoneFacts(steps=1, samples=8, lost=0, doubled=0, skipped=0, parameter_hash="abc")
COMPLETE = Verdict(complete=True, why="all samples are committed")


def job_of(script: str, replicas: int = 1, **spec: Any) -> OmniLearnJob:
    """Return a job whose workers run some Python."""
    container = {"name": "trainer", "command": ["python", "-c", script]}
    group = {"name": "w", "replicas": replicas, "template": {"spec": {"containers": [container]}}}
    return OmniLearnJob.from_manifest(
        {
            "apiVersion": "omnilearn.dev/v1alpha1",
            "kind": "OmniLearnJob",
            "metadata": {"name": "job"},
            "spec": {"batch": {"global": 8}, "workers": [group], **spec},
        }
    )


class FakeTokens:
    def issue(self, worker: str, attempt: int) -> str:
        return f"{worker} {attempt}"

    def revoke(self, worker: str, attempt: int) -> None:
        del worker, attempt


class FakeSeat:
    """A coordinator that says what a test wants it to."""

    def __init__(self, see: Callable[[], View]) -> None:
        self.tokens: Tokens = FakeTokens()
        self.running = False
        self.starts = 0
        self._see = see

    async def start(self) -> None:
        self.running = True
        self.starts += 1

    async def stop(self) -> None:
        self.running = False

    def view(self) -> View:
        return self._see()


class Run:
    """Run jobs in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.output = folder / "out"
        self.text = StringIO()
        self.seat = FakeSeat(View)

    def __call__(self, job: OmniLearnJob, see: Callable[[], View], *faults: Fault, **options: Any) -> RunReport:
        self.seat = FakeSeat(see)

        def make(_: OmniLearnJob, __: Address, ___: EventLog) -> FakeSeat:
            return self.seat

        chosen = RunOptions(self.folder, self.output, faults, **{"timeout": 20.0, "grace_seconds": 1.0, **options})
        return run_job(job, chosen, Console(file=self.text, width=200), make)

    def log(self, attempt: int, worker: str = "job-w-0") -> Path:
        return self.output / "logs" / f"{worker}-{attempt}.log"

    def complete_when(self, condition: Callable[[], bool]) -> Callable[[], View]:
        """Return a coordinator's eyes: it trains until the condition holds, and is complete then."""
        done = replace(ENTERED, phase="Complete", verdict=COMPLETE, done={"job-w-0": FACTS})
        return lambda: done if condition() else ENTERED


def wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for a condition; fail if it does not come."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)
