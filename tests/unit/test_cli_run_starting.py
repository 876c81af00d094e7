"""A worker that starts may use a whole CPU; from its first step on it is held to its limit."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from local_runs import ENTERED, Run, job_of
from omnilearn_cli.local.limits import Limits, open_limits
from omnilearn_cli.local.view import View
from omnilearn_core.api.job import OmniLearnJob

pytestmark = pytest.mark.skipif(not open_limits(os.getpid()).enforced, reason="no cgroup can be made here")

WAITS = "import os, time; print(os.environ.get('OMNILEARN_CPU_QUOTA'), flush=True); time.sleep(1)"


def limited(cpu: str) -> OmniLearnJob:
    manifest = job_of(WAITS).to_manifest()
    container = manifest["spec"]["workers"][0]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"cpu": cpu}}
    return OmniLearnJob.from_manifest(manifest)


def limits_given(run: Run, cpu: str, monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """Run a job whose worker joins once it has printed something; return its limits one after the other."""
    given: list[float | None] = []
    change = Limits.change

    def remember(self: Limits, worker: str, cpus: float | None) -> None:
        given.append(cpus)
        change(self, worker, cpus)

    def see() -> View:
        started = run.log(0).exists() and run.log(0).read_text() != ""
        return run.complete_when(lambda: len(given) > 1)() if started else replace(ENTERED, joined=frozenset())

    monkeypatch.setattr(Limits, "change", remember)
    run(limited(cpu), see)
    return given


@pytest.mark.parametrize(("cpu", "limits"), [("200m", [1.0, 0.2, None]), ("2", [2.0, 2.0, None])])
def test_a_worker_starts_with_a_whole_cpu_and_leaves_without_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cpu: str, limits: list[float | None]
) -> None:
    given = limits_given(Run(tmp_path), cpu, monkeypatch)
    assert [each for place, each in enumerate(given) if place < 2 or given[place - 1] != each] == limits


def test_a_worker_is_told_the_limit_that_it_cannot_see_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tmp_path)
    limits_given(run, "200m", monkeypatch)
    assert run.log(0).read_text() == "0.2\n"
