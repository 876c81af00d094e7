"""`omnilearn simulate`, as a user types it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from omnilearn_cli.main import app

JOB = "tests/manifests/three_kinds.yaml"
PNG = b"\x89PNG"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["simulate", *arguments])


def test_the_table_names_every_law_and_marks_the_manifests_own() -> None:
    result = run(JOB, "--steps", "50")
    assert result.exit_code == 0
    for law in ("Uniform", "Static", "Proportional", "PerEpoch", "Affine ←", "Oracle"):
        assert law in result.output
    assert "big 200, middle 75, small 50" in result.output


def test_figures_and_picture_are_written_where_asked(tmp_path: Path) -> None:
    figures, picture = tmp_path / "new" / "figures.json", tmp_path / "new" / "picture.png"
    result = run(JOB, "--steps", "60", "--slow", "20:big-0=0.5", "--json", str(figures), "--plot", str(picture))
    assert result.exit_code == 0
    data = json.loads(figures.read_text())
    assert sum(data["shares"].values()) == 512
    assert data["laws"]["Affine"]["overUniform"] > 1.1
    assert any("digits-big-0 runs at 50% of its speed" in decision["events"] for decision in data["decisions"])
    assert picture.read_bytes()[:4] == PNG


@pytest.fixture
def figures_of(tmp_path: Path) -> Callable[..., Any]:
    """Run with options, return the figures."""

    def figures(*arguments: str) -> Any:
        file = tmp_path / "figures.json"
        result = run(JOB, "--steps", "60", "--json", str(file), *arguments)
        assert result.exit_code == 0, result.output
        return json.loads(file.read_text())

    return figures


def test_more_workers_are_a_what_if_of_one_option(figures_of: Callable[..., Any]) -> None:
    few, more = figures_of(), figures_of("--add", "small=4")
    assert len(more["shares"]) == len(few["shares"]) + 4
    assert more["laws"]["Affine"]["samplesPerSecond"] > few["laws"]["Affine"]["samplesPerSecond"] * 1.3


def test_speeds_given_by_the_user_replace_the_assumed_ones(figures_of: Callable[..., Any]) -> None:
    shares = figures_of("--speeds", "big=50,middle=50,small=50", "--noise", "0")["shares"]
    assert set(shares.values()) == {128}


def test_workers_are_lost_and_join_when_told(figures_of: Callable[..., Any]) -> None:
    shares = figures_of("--lose", "10:digits-middle-1", "--join", "20:small", "--join", "25:small")["shares"]
    assert sorted(shares) == ["digits-big-0", "digits-middle-0", "digits-small-0", "digits-small-1", "digits-small-2"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--speeds", "huge=3"), "there is no group huge: use one of big, middle, small"),
        (("--slow", "10:big-7=0.5"), "there is no worker big-7: use one of digits-big-0"),
        (tuple(f"--lose=1:{name}" for name in ("big-0", "middle-0", "middle-1", "small-0")), "all workers are lost"),
        (("--slow", "big-0=0.5"), "'big-0=0.5' cannot be understood: write for example --slow 100:big-0=0.5"),
        (("--slow", "10:big-0=-1"), "cannot be understood"),
        (("--join", "soon:big"), "'soon:big' cannot be understood: write for example --join 100:small"),
        (("--speeds", "big=fast"), "'big=fast' cannot be understood: write for example --speeds small=20,big=160"),
        (("--law", "Magic"), "Magic"),
        (("--add", "small=5000"), "these are 5004 workers: use at most 1024"),
        (("--lose", "900:small-0"), "something is to happen at step 900, but the run ends at step 400: raise --steps"),
        (("--reduction-ms", "inf"), "Input should be less than or equal to 1000000000"),
    ],
)
def test_an_option_that_makes_no_sense_gets_a_sentence(arguments: tuple[str, ...], sentence: str) -> None:
    result = run(JOB, *arguments)
    assert result.exit_code != 0
    assert sentence in " ".join(result.output.replace("│", " ").split())


def test_a_bad_manifest_gets_the_same_sentences_as_validate(tmp_path: Path) -> None:
    bad = tmp_path / "job.yaml"
    bad.write_text(Path(JOB).read_text().replace("minWorkers: 2", "minWorkers: 9"))
    result = run(str(bad))
    assert result.exit_code == 1
    assert "membership.minWorkers is 9, but all groups together have 4 replicas" in result.output


def test_a_file_without_exactly_one_job_gets_a_sentence(tmp_path: Path) -> None:
    two = tmp_path / "two.yaml"
    text = Path(JOB).read_text()
    two.write_text(f"{text}\n---\n{text}")
    assert "there are 2 OmniLearnJobs in this file" in run(str(two)).output
    assert "cannot be opened" in run(str(tmp_path / "none.yaml")).output


@pytest.mark.parametrize(
    ("limit", "sentence"),
    [("lots", "the CPU limit of group small: 'lots' is no quantity"), ('"-2"', "group small is -2: use more than 0")],
)
def test_a_cpu_limit_that_is_none_gets_a_sentence(tmp_path: Path, limit: str, sentence: str) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(Path(JOB).read_text().replace("cpu: 500m", f"cpu: {limit}"))
    result = run(str(job))
    assert result.exit_code == 1
    assert sentence in result.output


@pytest.mark.parametrize("option", ["--plot", "--json"])
def test_a_file_that_cannot_be_written_gets_a_sentence(tmp_path: Path, option: str) -> None:
    result = run(JOB, "--steps", "20", option, str(tmp_path))
    assert result.exit_code == 1
    assert "cannot be written" in result.output


def test_a_joiner_can_be_lost_and_too_few_workers_are_noted(figures_of: Callable[..., Any]) -> None:
    shares = figures_of("--join", "10:big", "--lose", "20:big-1")["shares"]
    assert "digits-big-1" not in shares
    result = run(JOB, *(f"--lose={10 * n}:{name}" for n, name in enumerate(("big-0", "middle-0", "middle-1"), start=1)))
    assert "From step 30 only 1 workers are left, fewer than the 2 that the job needs" in result.output


def test_speeds_follow_capacity_only_if_every_group_has_one(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    text = Path(JOB).read_text()
    job.write_text(text.replace("  - name: small\n", "  - name: small\n    capacity: 7\n"))
    assert "big 200, middle 75, small 50" in run(str(job), "--steps", "20").output
    for name, capacity in (("big", 8), ("middle", 3), ("small", 2)):
        text = text.replace(f"  - name: {name}\n", f"  - name: {name}\n    capacity: {capacity}\n")
    job.write_text(text)
    assert "big 800, middle 300, small 200" in run(str(job), "--steps", "20").output


@pytest.fixture
def told_of(tmp_path: Path) -> Callable[..., Any]:
    """Return the figures of a job on a slow network, with that strategy in its manifest."""

    def told(strategy: str, *options: str) -> Any:
        job, file = tmp_path / "job.yaml", tmp_path / "figures.json"
        job.write_text(Path(JOB).read_text().replace("spec:\n", f"spec:\n  strategy: {strategy}\n", 1))
        result = run(str(job), "--steps", "5", "--model-mb", "4", "--megabits", "20", "--json", str(file), *options)
        assert result.exit_code == 0, result.output
        assert "discarded" in result.output
        return json.loads(file.read_text())

    return told


@pytest.fixture
def row_of(told_of: Callable[..., Any]) -> Callable[[str, str], Any]:
    """Return what a strategy would do."""
    return lambda name, strategy: next(each for each in told_of(strategy)["strategies"] if each["strategy"] == name)


def test_a_worker_that_only_serves_has_no_share_whatever_becomes_of_it(told_of: Callable[..., Any]) -> None:
    serving = "{type: Asynchronous, asynchronous: {serverGroup: small}}"
    told = told_of(serving, "--lose", "2:small-0", "--slow", "3:big-0=0.5")
    assert sum(told["shares"].values()) == sum(told_of("{type: Asynchronous}")["shares"].values())
    assert not any("small" in worker for worker in told["shares"])
    again = told_of(serving, "--lose", "2:small-0", "--join", "3:small", "--slow", "4:small-1=0.5")
    assert again["shares"].keys() == told["shares"].keys()


@pytest.mark.parametrize(
    ("strategy", "options", "changed"),
    [
        ("Asynchronous", "", set()),
        ("Asynchronous", "asynchronous: {staleness: DelayAdaptive}", set()),
        ("Asynchronous", "asynchronous: {gradients: Float16}", {"update_seconds"}),
        ("Asynchronous", "asynchronous: {serverGroup: small}", {"max_staleness"}),
        ("Asynchronous", "asynchronous: {staleness: Ringmaster, bound: 1}", {"discarded"}),
        ("Asynchronous", "asynchronous: {staleness: Rennala}", {"discarded", "update_seconds"}),
        ("LocalSGD", "", set()),
        ("LocalSGD", "localSGD: {steps: Fixed}", {"update_seconds", "idle"}),
        ("LocalSGD", "localSGD: {rule: FedLALR}", {"update_seconds"}),
        ("LocalSGD", "localSGD: {rule: BVR}", {"update_seconds"}),
    ],
)
def test_options_of_the_manifests_strategy_are_in_its_figures(
    row_of: Callable[[str, str], Any], strategy: str, options: str, changed: set[str]
) -> None:
    """A job of another strategy has it without options."""
    plain, row = row_of(strategy, "{type: Synchronous}"), row_of(strategy, f"{{type: {strategy}, {options}}}")
    assert all(row[figure] != plain[figure] for figure in changed)
    assert changed or row == plain
