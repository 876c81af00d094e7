"""The workers of a manifest as local processes: what is run, and with which environment."""

import sys
from pathlib import Path
from typing import Any

import pytest

from omnilearn_cli.local.workers import CannotStartError, Post, Slot, environment, local_command, slots_of
from omnilearn_core.api.job import OmniLearnJob


def job_of(*containers: dict[str, Any], **spec: Any) -> OmniLearnJob:
    groups = [
        {"name": f"g{place}", "replicas": 2, "template": {"spec": {"containers": [{"name": "trainer", **one}]}}}
        for place, one in enumerate(containers)
    ]
    return OmniLearnJob.from_manifest(
        {
            "apiVersion": "omnilearn.dev/v1alpha1",
            "kind": "OmniLearnJob",
            "metadata": {"name": "job"},
            "spec": {"batch": {"global": 8}, "workers": groups, **spec},
        }
    )


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("")
    return tmp_path


@pytest.fixture
def post(tmp_path: Path) -> Post:
    return Post("job", "ws://127.0.0.1:1", tmp_path / "out", tmp_path / "tokens", 10.0, (60, 3))


def test_groups_are_filled_in_order_up_to_the_most_that_the_job_may_have(workdir: Path) -> None:
    container = {"command": ["python", "train.py"], "resources": {"limits": {"cpu": "500m"}}}
    job = job_of(container, container, membership={"maxWorkers": 3})
    assert [slot.worker for slot in slots_of(job, workdir)] == ["job-g0-0", "job-g0-1", "job-g1-0"]
    assert {slot.cpus for slot in slots_of(job, workdir)} == {0.5}


@pytest.mark.parametrize("python", ["python", "python3"])
def test_python_is_the_one_that_runs_the_launcher(workdir: Path, python: str) -> None:
    script = str(workdir / "train.py")
    assert local_command([python, "train.py", "-v"], "g", workdir) == (sys.executable, script, "-v")
    assert local_command([python, "-u", "-X", "dev", "train.py"], "g", workdir)[-1] == script


def test_a_script_of_the_image_is_looked_for_beside_the_manifest(workdir: Path) -> None:
    assert local_command(["python", "/app/train.py"], "g", workdir)[1] == str(workdir / "train.py")


@pytest.mark.parametrize("arguments", [["-m", "package"], ["-c", "pass"], ["-um", "package"], ["-"], []])
def test_what_is_no_script_is_left_alone(workdir: Path, arguments: list[str]) -> None:
    assert local_command(["python", *arguments], "g", workdir) == (sys.executable, *arguments)


def test_another_program_is_run_from_the_path_or_the_folder(workdir: Path) -> None:
    own = workdir / "own.sh"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    assert local_command(["sh", "-c", "true"], "g", workdir) == ("sh", "-c", "true")
    assert local_command(["./own.sh"], "g", workdir) == (str(workdir / "own.sh"),)


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ([], "group g has no command, and a local run takes none from an image: write command: [python, train.py]"),
        (["python", "missing.py"], "group g: the script missing.py is not found in"),
        (["no-such-program"], "group g: the command no-such-program is not found"),
    ],
)
def test_a_command_that_cannot_run_gets_a_sentence(workdir: Path, command: list[str], sentence: str) -> None:
    with pytest.raises(CannotStartError) as caught:
        local_command(command, "g", workdir)
    assert sentence in str(caught.value)


def test_arguments_without_a_command_belong_to_an_image(workdir: Path) -> None:
    with pytest.raises(CannotStartError, match="has no command"):
        slots_of(job_of({"image": "x", "args": ["train.py"]}), workdir)


@pytest.mark.parametrize("limit", ["lots", "-2", "0"])
def test_a_cpu_limit_that_is_none_gets_a_sentence(workdir: Path, limit: str) -> None:
    container = {"command": ["python", "train.py"], "resources": {"limits": {"cpu": limit}}}
    with pytest.raises(CannotStartError, match="the CPU limit of group g0"):
        slots_of(job_of(container), workdir)


def test_a_worker_is_told_who_it_is_and_whom_to_talk_to(post: Post) -> None:
    env = environment(post, Slot("job-g-1", "g", "cpu", ("true",), cpus=1.5), 2, {"PATH": "/bin"})
    assert env["PATH"] == "/bin"
    assert env["OMNILEARN_WORKER"] == "job-g-1"
    assert env["OMNILEARN_ATTEMPT"] == "2"
    assert env["OMNILEARN_COORDINATOR"] == "ws://127.0.0.1:1"
    assert env["OMNILEARN_TOKEN_FILE"].endswith("tokens/job-g-1-2")
    assert env["OMNILEARN_TRACE_FILE"].endswith("workers/job-g-1-2.jsonl")
    assert (env["OMNILEARN_CHECKPOINT_SECONDS"], env["OMNILEARN_CHECKPOINT_KEEP"]) == ("60", "3")
    assert (env["OMP_NUM_THREADS"], env["MKL_NUM_THREADS"]) == ("2", "2")


def test_nothing_of_another_job_is_inherited(post: Post) -> None:
    env = environment(post, Slot("w", "g", "cpu", ("true",)), 0, {"OMNILEARN_FAULTS": "x", "OMP_NUM_THREADS": "7"})
    assert "OMNILEARN_FAULTS" not in env
    assert env["OMP_NUM_THREADS"] == "7", "without a limit, the user's choice stays"


def test_plain_variables_of_the_template_are_kept_and_those_of_the_cluster_are_not(workdir: Path, post: Post) -> None:
    variables = [{"name": "A", "value": "1"}, {"name": "B"}, {"name": "C", "valueFrom": {"fieldRef": {}}}]
    slot = slots_of(job_of({"command": ["python", "train.py"], "env": variables}), workdir)[0]
    env = environment(post, slot, 0, {})
    assert (env["A"], env["B"], "C" in env) == ("1", "", False)
