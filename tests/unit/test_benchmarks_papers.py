"""The pure parts of `benchmarks.papers`: figures, marks, shards, and that every run is a job that could be."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the benchmark trains with it")

import torch
from benchmarks import papers_figures, papers_views
from benchmarks.papers_claims import CLAIMS, TUNING, Claim
from benchmarks.papers_figures import Goal
from benchmarks.papers_reading import pace_of, whole_lines
from benchmarks.papers_subjects import skewed

RISING = [(0.0, 0.1), (1.0, 0.4), (2.0, 0.7), (3.0, 0.7), (4.0, 0.7)]


def test_the_time_to_a_target_lies_between_two_points_of_the_smoothed_curve() -> None:
    assert papers_figures.time_to(RISING, Goal(0.5, higher_is_better=True)) == pytest.approx(1.5)


def test_a_target_that_is_not_reached_takes_for_ever() -> None:
    assert math.isinf(papers_figures.time_to(RISING, Goal(0.9, higher_is_better=True)))


def test_a_loss_reaches_its_target_from_above() -> None:
    falling = [(moment, 1.0 - value) for moment, value in RISING]
    assert papers_figures.time_to(falling, Goal(0.5, higher_is_better=False)) == pytest.approx(1.5)


def test_a_curve_keeps_its_last_value() -> None:
    assert papers_figures.at(RISING, 9.0) == pytest.approx(0.7)
    assert papers_figures.at(RISING, 1.5) == pytest.approx(0.5)


def test_one_run_that_does_not_get_there_leaves_no_mean() -> None:
    mean, _ = papers_figures.mean_and_spread([1.0, math.inf, 1.2])
    assert math.isinf(mean)
    assert papers_views.said("seconds to target", "pictures", [1.0, math.inf, 1.2]) == "2 of 3 runs"


def row(way: str, seconds: list[float], end: list[float], subject: str = "pictures") -> dict[str, Any]:
    figures = {key: [0.0] for key in papers_figures.FIGURES} | {"seconds to target": seconds, "at the end": end}
    return {"case": "one", "way": way, "subject": subject, "seconds": 4.0, "figures": figures, "curves": [RISING]}


def claim() -> Claim:
    return Claim("a claim", dict, ("seconds to target", "at the end"), "seconds to target")


def test_the_best_way_is_the_first_at_the_target() -> None:
    rows = [row("late", [3.0], [0.9]), row("soon", [2.0], [0.8]), row("never", [math.inf], [0.5])]
    assert papers_views.best_way(claim(), rows, "one") == "soon"


def test_where_nobody_is_at_the_target_the_best_is_who_came_closest() -> None:
    rows = [row("far", [math.inf], [0.5]), row("close", [math.inf], [0.6])]
    assert papers_views.best_way(claim(), rows, "one") == "close"
    bits = [row("far", [math.inf], [4.0], "text"), row("close", [math.inf], [3.5], "text")]
    assert papers_views.best_way(claim(), bits, "one") == "close"


def test_a_table_marks_the_best_way() -> None:
    table = papers_views.table_of(claim(), [row("late", [3.0], [0.9]), row("soon", [2.0], [0.8])])
    assert list(table.columns[1].cells) == ["late", "soon *"]
    assert list(table.columns[3].cells) == ["90.0 ± 0.0 %", "80.0 ± 0.0 %"]


def test_shards_by_label_hold_every_sample_once_and_are_unlike() -> None:
    labels = torch.arange(10).repeat(100)
    shards = skewed(labels, 4, 0.1, seed=3)
    assert sorted(torch.cat(shards).tolist()) == list(range(1000))
    assert min(map(len, shards)) >= 50
    assert max(int((labels[shards[0]] == label).sum()) for label in range(10)) > len(shards[0]) / 5


def test_the_last_line_of_somebody_who_was_killed_may_be_short(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text('{"a": 1}\n{"a": 2}\n{"a"')
    assert list(whole_lines(file)) == [{"a": 1}, {"a": 2}]


def test_a_pace_needs_two_moments() -> None:
    assert pace_of([3.0, 1.0, 2.0]) == 1.0
    assert math.isnan(pace_of([1.0]))


@pytest.mark.parametrize("name", [*CLAIMS, "rates"])
def test_every_run_of_a_claim_is_a_job_with_figures_to_show(name: str) -> None:
    claim = {**CLAIMS, "rates": TUNING}[name]
    assert set(claim.columns) | {claim.best} <= set(papers_figures.FIGURES)
    for plan in claim.runs().values():
        settings = plan.settings()
        assert settings.expected == len(plan.speeds) == len(plan.letters)
        assert settings.global_batch % settings.strategy.unit == 0
        assert [settings.group_of(worker).name for worker in plan.names] == list(plan.letters)
