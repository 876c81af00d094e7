"""The manifests of tests/bad are what tired engineers write; here is what each of them is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from omnilearn_cli.main import app

FOLDER = Path(__file__).parents[1] / "bad"
FILES = sorted(FOLDER.glob("*"))

_CONTAINERS = "spec.workers[0].template.spec.containers"

TOLD: dict[str, list[str]] = {
    "arguments.yaml": [
        f'{_CONTAINERS}[0].command: command is "python train.py": write a list, each entry with a dash',
        f"{_CONTAINERS}[0].args[1]: args[1] is 90: put it in quotes",
        f"{_CONTAINERS}[0].args[3]: args[3] is 0.001: put it in quotes",
    ],
    "batch-too-large.yaml": [
        "spec.membership.maxWorkers: membership.maxWorkers is 8, but all groups together have 6 replicas:"
        " lower maxWorkers or raise replicas",
        "spec.batch.global: batch.global is 1024, but the fewest workers that the job runs with (2) can hold only"
        " 256 each, 512 together: raise maxPerWorker or minWorkers, or lower global",
        "spec.suspend: suspend is true, but there is no checkpoint to go on from: add checkpoint.claimName, or"
        " delete the job",
    ],
    "copied-from-deployment.yaml": [
        "spec.workers: workers is missing: add it (here are only batch, replicas, selector, template)",
        "spec.replicas: there is no field replicas here: it belongs in spec.workers[]",
        "spec.selector: there is no field selector: known here are activeDeadlineSeconds, batch, checkpoint,"
        " cleanPods, gangScheduler, managedBy, membership, restart, startupDeadlineSeconds, strategy, suspend,"
        " ttlSecondsAfterFinished, workers",
        "spec.template: there is no field template here: it belongs in spec.workers[]",
    ],
    "cpu-as-fraction.yaml": [
        f'{_CONTAINERS}[0].resources.limits.cpu: cpu is 0.5: put it in quotes, "0.5"',
    ],
    "gpu-without-limit.yaml": [
        f"{_CONTAINERS}: the pod has 2 containers, of which 0 are called 'trainer': call exactly one of them trainer,"
        " the one that trains",
        f"{_CONTAINERS}: group 'gpu' has device gpu, but its trainer container has neither a limit such as"
        " nvidia.com/gpu nor a resource claim: add one, or set device to cpu",
    ],
    "group-copied.yaml": [
        "spec.workers: the group name 'cpu' is used twice in workers: give every group a name of its own",
        "spec.workers[0].template.spec.restartPolicy: restartPolicy is 'Always': leave it out, a worker that ends is"
        " replaced by a new pod",
        "spec.workers[1].template.spec.restartPolicy: restartPolicy is 'Always': leave it out, a worker that ends is"
        " replaced by a new pod",
    ],
    "names.yaml": [
        "metadata.name: metadata.name is 'ResNet50.v2': use lower-case letters, digits and hyphens, beginning with a"
        " letter and without dots, because pods and a Service are named after it",
        "spec.workers[0].name: the group name is 'gpu-a100': use lower-case letters and digits, beginning with a letter"
        " and without hyphens, so that names of pods cannot collide",
    ],
    "numbers-in-quotes.yaml": [
        'spec.batch.global: global is "512": write a whole number, without quotes',
        'spec.workers[0].replicas: replicas is "4": write a whole number, without quotes',
        'spec.suspend: suspend is "false": write true or false, without quotes',
    ],
    "snake-case.yaml": [
        'spec.batch.law: law is "affine": use Uniform, Static, Proportional, PerEpoch, Affine (did you mean Affine?)',
        "spec.batch.max_per_worker: there is no field max_per_worker: did you mean maxPerWorker?",
        'spec.workers[0].device: device is "CPU": use cpu, gpu (did you mean cpu?)',
        "spec.workers[0].min_replicas: there is no field min_replicas: did you mean minReplicas?",
        "spec.membership.min_workers: there is no field min_workers: did you mean minWorkers?",
    ],
    "template-without-spec.yaml": [
        "spec.workers[0].template.spec: spec is missing: add it (here is only containers)",
        "metadata.lables: there is no field lables: did you mean labels?",
    ],
}


def test_every_file_is_told_something() -> None:
    assert [file.name for file in FILES] == sorted(TOLD)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_bad_manifest_is_told_exactly_what_is_wrong(file: Path) -> None:
    result = CliRunner().invoke(app, ["validate", str(file)])
    assert result.exit_code == 1
    told = [line.split("): ", 1)[1] for line in result.output.splitlines()]
    assert told == TOLD[file.name]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_bad_manifest_says_in_its_first_line_what_is_wrong(file: Path) -> None:
    first = file.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("# ")
    assert first.endswith(".")
