"""`omnilearn validate`: every problem with file, document and path; YAML as kubectl reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from manifests import GOOD, Manifest, changed, group, manifest
from omnilearn_cli.main import app
from omnilearn_cli.manifests import documents_of

CLAIM = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "ckpt"}}


def validate(*files: Path) -> Result:
    return CliRunner().invoke(app, ["validate", *map(str, files)])


def written(folder: Path, name: str, *documents: Any) -> Path:
    file = folder / name
    file.write_text("---\n".join(yaml.safe_dump(document) for document in documents), encoding="utf-8")
    return file


def read(folder: Path, text: str) -> Any:
    """Return what a file with one document holds."""
    file = folder / "text.yaml"
    file.write_text(text, encoding="utf-8")
    [document] = documents_of(file)
    return document.content


def test_a_good_file_is_ok(tmp_path: Path) -> None:
    file = written(tmp_path, "job.yaml", manifest())
    result = validate(file)
    assert result.exit_code == 0
    assert result.output == f"{file}: document 1 (job): ok\n"


@pytest.mark.parametrize("good", GOOD.values(), ids=GOOD)
def test_every_good_manifest_is_ok_as_yaml(good: Manifest, tmp_path: Path) -> None:
    assert validate(written(tmp_path, "job.yaml", good)).exit_code == 0


def test_every_problem_of_every_document_of_every_file_is_printed(tmp_path: Path) -> None:
    bad = manifest("my.job", workers=[group("a-b")])
    first = written(tmp_path, "first.yaml", manifest("one"), bad)
    second = written(tmp_path, "second.yaml", manifest("two", batch={"global": "64"}))
    result = validate(first, second)
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert lines[0] == f"{first}: document 1 (one): ok"
    assert lines[1].startswith(f"{first}: document 2 (my.job): metadata.name: metadata.name is 'my.job': use ")
    assert lines[2].startswith(f"{first}: document 2 (my.job): spec.workers[0].name: the group name is 'a-b': use ")
    assert lines[3:] == [
        f'{second}: document 1 (two): spec.batch.global: global is "64": write a whole number, without quotes'
    ]


def test_one_bad_file_among_good_ones_makes_the_exit_code_one(tmp_path: Path) -> None:
    good = written(tmp_path, "good.yaml", manifest())
    bad = written(tmp_path, "bad.yaml", manifest(suspend=True))
    assert validate(bad, good).exit_code == 1
    assert validate(good, good).exit_code == 0


def test_other_kinds_are_skipped(tmp_path: Path) -> None:
    file = written(tmp_path, "job.yaml", CLAIM, manifest())
    result = validate(file)
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        f"{file}: document 1 (ckpt): skipped, because it is a PersistentVolumeClaim",
        f"{file}: document 2 (job): ok",
    ]


def test_a_file_without_a_job_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path, "claim.yaml", CLAIM)
    result = validate(file)
    assert result.exit_code == 1
    assert result.output.splitlines()[1] == (
        f"{file}: there is no OmniLearnJob in this file: give one, with apiVersion and kind"
    )


@pytest.mark.parametrize("text", ["", "\n", "---\n---\n", "# only a comment\n"])
def test_an_empty_file_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "empty.yaml"
    file.write_text(text)
    result = validate(file)
    assert result.exit_code == 1
    assert result.output == f"{file}: there is no OmniLearnJob in this file: give one, with apiVersion and kind\n"


def test_empty_documents_count_but_are_not_looked_at(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(f"---\n---\n{yaml.safe_dump(manifest())}---\n")
    assert validate(file).output == f"{file}: document 2 (job): ok\n"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"a: 1\nb: [1, 2\nc: 3\n", "line 3, column 2: a bracket is not closed, or a comma is missing"),
        (
            b"a:\n\tb: 1\n",
            "line 2, column 1: a character that cannot begin a value: indent with spaces, not tabs, or use quotes",
        ),
        (
            b"a: 1\nb: x: y\n",
            "line 2, column 5: a colon where no field can begin: check the indentation, or use quotes",
        ),
        (b"spec:\n  law: x\n  law: y\n", "line 3, column 3: the key law stands here twice: remove one"),
        (b"spec:\n  1: x\n", "line 2, column 3: the key 1 is not a string: put it in quotes"),
        (b"spec:\n  on: x\n", "line 2, column 3: the key on is not a string: put it in quotes"),
        (b"a: .inf\n", "line 1, column 4: .inf is no number that JSON knows: write another, or put it in quotes"),
        (b"a: \xff\n", "byte 3 is not UTF-8 text"),
        (b"a: " + b"[" * 1200, "this is nested too deeply"),
        (b"a: *b\n", "line 1, column 4: found undefined alias 'b'"),
        (b"a: \x07\n", "line 1, column 4: a character that YAML does not allow: remove it"),
        (
            b"a:\n  b: 1\n c: 2\n",
            "line 3, column 2: the indentation does not fit the lines above: align it with its neighbours",
        ),
        (b"a: 'b\n", "line 2, column 1: a quote is not closed"),
        (b"a: {b: 1\n", "line 2, column 1: a brace is not closed, or a comma is missing"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_the_place(content: bytes, sentence: str, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_bytes(content)
    result = validate(file)
    assert result.exit_code == 1
    assert result.output == f"{file}: {sentence}\n"


def test_what_stands_before_a_yaml_error_is_still_checked(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(f"{yaml.safe_dump(manifest())}---\na: [\n")
    result = validate(file)
    assert result.exit_code == 1
    assert result.output.splitlines()[0] == f"{file}: document 1 (job): ok"
    assert "line " in result.output.splitlines()[1]


def test_a_missing_file_is_refused_and_the_others_are_checked(tmp_path: Path) -> None:
    missing, good = tmp_path / "missing.yaml", written(tmp_path, "job.yaml", manifest())
    result = validate(missing, good)
    assert result.exit_code == 1
    assert result.output.splitlines() == [
        f"{missing}: cannot be opened: No such file or directory",
        f"{good}: document 1 (job): ok",
    ]


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert validate(tmp_path).output == f"{tmp_path}: cannot be opened: Is a directory\n"


def test_a_document_that_is_no_manifest_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path, "list.yaml", [manifest()])
    assert validate(file).output == (
        f"{file}: document 1: this is a list, not a manifest: begin with apiVersion and kind\n"
    )


def test_a_document_without_kind_is_taken_for_a_job(tmp_path: Path) -> None:
    file = written(tmp_path, "job.yaml", {"metadata": {"name": "job"}, "spec": manifest()["spec"]})
    lines = validate(file).output.splitlines()
    assert [line.split(": ")[2] for line in lines] == ["apiVersion", "kind"]


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("metdata", "there is no field metdata: did you mean metadata?"),
        ("metadata.label", "there is no field label: did you mean labels?"),
        ("spec.worker", "there is no field worker: did you mean workers?"),
        ("spec.batch.minPerWorkers", "there is no field minPerWorkers: did you mean minPerWorker?"),
        ("spec.workers.0.replica", "there is no field replica: did you mean replicas?"),
        ("spec.membership.joinTimeout", "there is no field joinTimeout: did you mean joinTimeoutSeconds?"),
        ("spec.maxFailures", "there is no field maxFailures here: it belongs in spec.restart"),
    ],
)
def test_a_misspelt_field_is_told_what_was_meant(path: str, hint: str, tmp_path: Path) -> None:
    result = validate(written(tmp_path, "job.yaml", changed(manifest(), path, 1)))
    assert result.exit_code == 1
    assert result.output.endswith(f": {hint}\n")


@pytest.mark.parametrize(
    ("path", "value", "hint"),
    [
        ("spec.batch.law", "Proportionel", "Proportional"),
        ("spec.batch.law", "STATIC", "Static"),
        ("spec.workers.0.device", "GPU", "gpu"),
        ("spec.gangScheduler", "coscheduler", "coscheduling"),
    ],
)
def test_a_misspelt_choice_is_told_what_was_meant(path: str, value: str, hint: str, tmp_path: Path) -> None:
    result = validate(written(tmp_path, "job.yaml", changed(manifest(), path, value)))
    assert result.exit_code == 1
    assert result.output.endswith(f" (did you mean {hint}?)\n")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("64.0", 64), ("1e3", 1000), ("1.5e3", 1500), ("1e-3", 0.001), ("1_000", 1000), ("0x10", 16), ("017", 15),
        ("08", 8), ("10:30", "10:30"), ("2026-11-16", "2026-11-16"), ("yes", True), ("n", False), ("~", None),
        ("1e400", "1e400"), ("1e22", 1e22), ("=", "="), ("'8'", "8"),
    ],
)  # fmt: skip
def test_scalars_are_read_as_kubectl_reads_them(text: str, value: Any, tmp_path: Path) -> None:
    """Each was tried with sigs.k8s.io/yaml, which kubectl uses."""
    found = read(tmp_path, f"a: {text}\n")["a"]
    assert found == value
    assert type(found) is type(value)


def test_a_merge_may_override_keys_wherever_it_stands(tmp_path: Path) -> None:
    text = "a: &a {x: 1}\nouter:\n  inner: &b {<<: *a, x: 2}\nc: {<<: *b, x: 3}\n"
    assert read(tmp_path, text) == {"a": {"x": 1}, "outer": {"inner": {"x": 2}}, "c": {"x": 3}}


def test_a_key_twice_beside_a_merge_is_still_refused(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("a: &a {x: 1}\nb: {<<: *a, z: 2, z: 3}\n")
    assert validate(file).output == f"{file}: line 2, column 19: the key z stands here twice: remove one\n"


def test_a_list_as_kubectl_prints_it_is_unfolded(tmp_path: Path) -> None:
    file = tmp_path / "list.yaml"
    file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [manifest(), manifest()]}))
    assert validate(file).output.count(": ok") == 2


def test_standard_input_is_read_for_a_dash() -> None:
    result = CliRunner().invoke(app, ["validate", "-"], input=yaml.safe_dump(manifest()))
    assert (result.exit_code, result.output.strip()[-2:]) == (0, "ok")
