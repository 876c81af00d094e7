"""The benchmarks with many jobs: what they read and how they judge."""

from __future__ import annotations

import os
from typing import Any

import pytest
from benchmarks import churn, fakes, scale_views, subject

from omnilearn_core.api.job import OmniLearnJob

TEXT = """# HELP omnilearn_jobs Jobs by phase.
omnilearn_jobs{phase="Running"} 3.0
omnilearn_jobs{phase="Pending"} 1.0
omnilearn_api_calls_total{kind="Pod",verb="create"} 15.0
omnilearn_api_calls_total{kind="Pod",verb="list"} 4.0
omnilearn_api_calls_total{kind="Event",verb="create"} 2e+01
omnilearn_leads 1.0
"""


def run(jobs: int, **changes: Any) -> dict[str, Any]:
    used = {"seconds": 100.0, "cpu_seconds": 0.02 * jobs, "writes": 10.0 * jobs, "cpu_of_others": {}}
    phases: dict[str, Any] = {
        "bare": {"created_seconds": 50.0, "ready_seconds": 100.0},
        "create": {**used, "seconds": 150.0},
        "steady": {**used, "reports": 100, "looks": 100, "memory": 200 * 2**20},
        "latency": {"percentiles": [0.001, 0.002, 0.03, 0.1, 0.2], "series": 10, "scrape_seconds": 0.1},
        "restart": {"leads_seconds": 3.0, "adopted_seconds": 20.0, "answered_seconds": 21.0},
    }
    samples = [{"at": at, "phase": "steady", "memory": 250 * 2**20} for at in (0.0, 2.0)]
    return {"jobs": jobs, "workers": 5, "phases": phases | changes, "samples": samples}


def test_an_operators_numbers_are_read_from_its_metrics() -> None:
    numbers = subject.numbers_in(TEXT)
    assert (subject.jobs_in(numbers), subject.in_phase(numbers, "Running")) == (4, 3)
    assert (subject.writes_in(numbers), subject.calls_in(numbers)["list Pod"]) == (35.0, 4.0)


def test_the_kernel_says_what_a_process_uses() -> None:
    used = subject.used_by(os.getpid())
    assert (used.cpu_seconds > 0, used.memory > 10 * 2**20, used.threads > 0, used.files > 2) == (True,) * 4


def test_the_goals_are_judged_on_the_most_jobs() -> None:
    verdicts = scale_views.judge({"runs": [run(100), run(1000)]})
    assert [each.goal for each in verdicts if not each.met] == []
    assert "1.50 × bare" in verdicts[0].measured


@pytest.mark.parametrize(
    ("phase", "figures", "goal"),
    [
        ("restart", {"leads_seconds": 3.0, "adopted_seconds": 20.0, "answered_seconds": 31.0}, "killed"),
        ("steady", {"seconds": 10.0, "cpu_seconds": 11.0, "writes": 1.0}, "CPU of the operator"),
    ],
)
def test_a_goal_that_is_missed_is_told(phase: str, figures: dict[str, Any], goal: str) -> None:
    missed = [each.goal for each in scale_views.judge({"runs": [run(1000, **{phase: figures})]}) if not each.met]
    assert [goal in each for each in missed] == [True]


def test_a_cost_that_grows_faster_than_the_number_of_jobs_is_told() -> None:
    small, large = run(100), run(1000)
    large["phases"]["steady"]["cpu_seconds"] = 50.0
    missed = [each for each in scale_views.judge({"runs": [small, large]}) if not each.met]
    assert [each.measured for each in missed] == ["0.2 → 0.5 ms: × 2.50"]


@pytest.mark.parametrize(("grown", "missed"), [(0.0, []), (30.0, ["memory"])])
def test_churn_is_flat_if_the_end_is_as_the_second_quarter(grown: float, missed: list[str]) -> None:
    same = {"tasks": 40.0, "threads": 2.0, "files": 47.0, "series": 34.0, "of_jobs": 0.0}
    rows = [{"at": 1.0, "cycles": 50.0 * n, "memory": 90.0 + grown * n / 40, **same} for n in range(1, 41)]
    assert [each.goal for each in churn.judge(rows) if not each.met] == missed


def test_the_jobs_of_the_benchmark_are_good_manifests_for_nodes_of_kwok_only() -> None:
    job = OmniLearnJob.from_manifest(fakes.job("job1", 5))
    assert job.spec.fewest == 5
    pods = list(fakes.bare_pods(2, 5, "bare"))
    assert len({pod["metadata"]["name"] for pod in pods}) == 10
    assert {pod["spec"]["nodeSelector"]["type"] for pod in pods} == {"kwok"}
    assert all(node["spec"]["taints"] for node in fakes.nodes_for(5000))
    assert len(fakes.nodes_for(5000)) * fakes.PODS_PER_NODE > 5000
