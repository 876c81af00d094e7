"""`omnilearn run`, as a user types it, as far as it goes without a worker that trains."""

import json
import socket
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from omnilearn_cli.local.command import with_law
from omnilearn_cli.main import app
from omnilearn_core.api.job import LawName, OmniLearnJob

MANIFEST = {
    "apiVersion": "omnilearn.dev/v1alpha1",
    "kind": "OmniLearnJob",
    "metadata": {"name": "job"},
    "spec": {
        "batch": {"global": 8},
        "restart": {"maxFailures": 0},
        "workers": [
            {
                "name": "w",
                "template": {"spec": {"containers": [{"name": "trainer", "command": ["python", "train.py"]}]}},
            }
        ],
    },
}


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(MANIFEST))
    return file


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["run", *map(str, arguments)])


def words(result: Result) -> str:
    return " ".join(result.output.replace("│", " ").split())


def test_a_script_that_is_not_there_cannot_start(manifest: Path) -> None:
    result = run(manifest)
    assert result.exit_code == 3
    assert "group w: the script train.py is not found in" in result.output


def test_an_image_without_a_command_cannot_start(manifest: Path) -> None:
    manifest.write_text(manifest.read_text().replace("command:", "args:"))
    result = run(manifest)
    assert result.exit_code == 3
    assert "group w has no command" in result.output


def test_a_port_in_use_cannot_be_had(manifest: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = run(manifest, "--port", str(port), "--output", tmp_path / "out")
    assert result.exit_code == 3
    assert f"cannot listen on port {port}" in result.output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--kill", "big-0"), "'big-0' cannot be understood: write for example --kill 12s:big-0"),
        (("--kill", "1s:big-0"), "kill big-0: there is no worker big-0: use one of job-w-0"),
        (("--add", "1s:big"), "add big: there is no group big: use one of w"),
        (("--cpu", "1s:w-0=no"), "write for example --cpu 12s:big-0=0.5"),
        (("--env", "SEED"), "'SEED' is no variable: write for example --env SEED=1"),
        (("--script", "none.yaml"), "none.yaml cannot be read"),
        (("--law", "Magic"), "Magic"),
    ],
)
def test_an_option_that_makes_no_sense_is_bad_usage(manifest: Path, arguments: tuple[str, str], sentence: str) -> None:
    (manifest.parent / "train.py").write_text("")
    result = run(manifest, *arguments)
    assert result.exit_code == 2
    assert sentence in words(result)


def test_a_bad_manifest_is_bad_usage(manifest: Path) -> None:
    manifest.write_text(manifest.read_text().replace("global: 8", "global: 0"))
    assert run(manifest).exit_code == 2
    assert run(manifest.parent / "none.yaml").exit_code == 2


def test_a_folder_that_is_not_there_is_named(manifest: Path) -> None:
    result = run(manifest, "--workdir", manifest.parent / "none")
    assert result.exit_code == 3
    assert "is not there: correct --workdir" in words(result)


def test_a_script_that_knows_nothing_of_jobs_fails_with_its_last_words(manifest: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os; print('seed', os.environ['SEED']); raise SystemExit(5)")
    result = run(manifest, "--output", tmp_path / "out", "--env", "SEED=7", "--timeout", "20")
    assert result.exit_code == 1
    assert "job-w-0 | seed 7" in result.output
    assert (
        "Failed: 1 failures of workers are more than restart.maxFailures allows, 0: job-w-0 exited with 5"
        in result.output
    )
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (report["state"], report["steps"], report["failures"]) == ("Failed", 0, 1)
    events = [json.loads(line) for line in (tmp_path / "out" / "events.jsonl").read_text().splitlines()]
    assert [event["kind"] for event in events if event["kind"] in ("Exited", "Failed")] == ["Exited", "Failed"]


def test_another_law_may_be_tried() -> None:
    job = OmniLearnJob.from_manifest(MANIFEST)
    assert with_law(job, LawName.UNIFORM).spec.batch.law is LawName.UNIFORM
    assert with_law(job, None) is job
