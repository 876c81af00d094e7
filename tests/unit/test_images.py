"""The Dockerfile, and what builds it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path

import pytest
from scripts.images import Row, missing_space, options_of, reference, row, table
from scripts.images_engines import Build, BuildError, Image
from scripts.images_inputs import Notes, inputs

from scripts import images, images_engines, images_store

ROOT = Path(__file__).parents[2]
DOCKERFILE = re.sub(r"\s*\\\n\s*", " ", re.sub(r"(?m)^#.*\n", "", (ROOT / "Dockerfile").read_text()))


class Shelf:
    """An engine that has images and builds none."""

    name = "shelf"
    folder = Path("/")

    def __init__(self, *built: Image, recipe: str = "") -> None:
        self.waiting = list(built)
        self.images: dict[str, Image] = {}
        self.saved: list[Path] = []
        self.recipe = recipe

    def build(self, build: Build) -> None:
        self.images[build.name] = self.waiting.pop(0)

    def image(self, name: str) -> Image | None:
        return self.images.get(name)

    def save(self, name: str, archive: Path) -> None:
        archive.write_text(name)
        self.saved.append(archive)

    def save_changes(self, name: str, archive: Path, known: Collection[str]) -> None:
        raise AssertionError


def image(layers: str, **changes: int) -> Image:
    return Image(f"sha256:{layers}", 1_000_000, tuple(layers), dict.fromkeys(layers, 2_000_000) | changes)


def stages() -> dict[str, str]:
    """Return the text of every stage."""
    parts = re.split(r"(?m)^FROM \S+ AS (\S+)\n", DOCKERFILE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def copied() -> set[str]:
    """Return what the Dockerfile copies from the repository."""
    lines = re.findall(r"(?m)^COPY (?!--from)(.+)$", DOCKERFILE)
    return {source for line in lines for source in line.split()[:-1]}


def test_both_images_run_as_a_number_that_is_not_root() -> None:
    for target in images.TARGETS:
        assert re.search(r"(?m)^USER 65532:65532$", stages()[target])


def test_every_package_is_installed_with_its_hashes() -> None:
    installs = re.findall(r"(?:/pip install|\$install|uv pip install|uv build) [^&;\n]*", DOCKERFILE)
    exceptions = [each for each in installs if "--require-hashes" not in each]
    assert len(installs) == 8
    # How both ways to torch begin; torch of another index, whose files the hashes do not know; our own wheel
    assert [each.split()[-1].strip('")') for each in exceptions] == [
        "--no-deps", "/opt/omnilearn/torch.txt", "/wheels/*.whl",
    ]  # fmt: skip


def test_the_image_of_the_operator_takes_nothing_from_the_stages_of_torch() -> None:
    assert set(re.findall(r"--from=(\S+)", stages()["operator"])) == {"operator-packages", "project"}
    assert "FROM base AS operator\n" in DOCKERFILE


def test_project_code_comes_after_everything_that_is_large() -> None:
    lines = re.findall(r"(?m)^COPY .*$", stages()["runtime"])
    assert [re.sub(r" /opt.*| /examples", "", line) for line in lines] == [
        "COPY --from=runtime-packages", "COPY --from=project", "COPY examples",
    ]  # fmt: skip


def test_the_build_sees_what_it_copies_and_nothing_else() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    shown = {line[1:] for line in lines if line.startswith("!")}
    assert "*" in lines
    assert {source.split("/")[0] for source in copied()} == shown
    assert all((ROOT / source).exists() for source in copied())


@pytest.mark.skipif(shutil.which("awk") is None, reason="there is no awk")
def test_torch_and_what_it_needs_of_a_gpu_get_a_layer_of_their_own(tmp_path: Path) -> None:
    program = re.search(r"awk '([^']*)'", DOCKERFILE)
    assert program is not None
    requirements = (ROOT / "requirements" / "runtime.txt").read_text()
    script = program[1].replace("/requirements", str(tmp_path))
    subprocess.run(["awk", script], input=requirements, text=True, check=True, timeout=10)  # noqa: S607
    own, others = ((tmp_path / name).read_text() for name in ("torch.txt", "others.txt"))
    names = {
        part: set(re.findall(r"(?m)^([a-z][a-z0-9-]*)==", text)) for part, text in (("own", own), ("rest", others))
    }
    assert {"torch", "triton"} <= names["own"]
    assert all(re.match(r"torch$|triton$|nvidia-|cuda-", name) for name in names["own"])
    assert {"numpy", "pydantic", "scikit-learn", "websockets"} <= names["rest"]
    assert sorted((own + others).splitlines()) == sorted(requirements.splitlines())


@pytest.mark.parametrize(
    ("registry", "name"),
    [
        ("", "omnilearn-runtime:dev"),
        ("localhost", "localhost/omnilearn-runtime:dev"),
        ("a:5/b/", "a:5/b/omnilearn-runtime:dev"),
    ],
)  # fmt: skip
def test_an_image_is_named_after_its_target(registry: str, name: str) -> None:
    assert reference("runtime", "dev", registry) == name


def test_both_images_are_built_under_the_version_unless_asked_otherwise() -> None:
    options = options_of([], {})
    assert (options.targets, options.tag) == (["operator", "runtime"], images.version())


def test_an_image_that_does_not_exist_is_refused_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options_of(["torch"], {})
    assert "there is no image torch: choose from operator, runtime" in capsys.readouterr().err


def test_the_package_index_comes_from_the_environment_of_uv_or_pip() -> None:
    assert images.build_arguments(options_of([], {"PIP_INDEX_URL": "a"})) == {"INDEX": "a"}
    assert images.build_arguments(options_of([], {"PIP_INDEX_URL": "a", "UV_DEFAULT_INDEX": "b"})) == {"INDEX": "b"}
    assert images.build_arguments(options_of(["--index", "c"], {"PIP_INDEX_URL": "a"})) == {"INDEX": "c"}


def test_a_first_build_has_changed_all_layers() -> None:
    made = row(image("abc"), None, "x", 1.0)
    assert (made.changed_layers, made.changed_megabytes, made.megabytes) == (3, 6.0, 1.0)


def test_a_rebuild_has_changed_what_was_not_there() -> None:
    made = row(image("abd", d=500_000), image("abc"), "x", 1.0)
    assert (made.layers, made.changed_layers, made.changed_megabytes) == (3, 1, 0.5)


def test_sizes_of_layers_may_be_unknown() -> None:
    made = row(Image("i", 1, ("a",)), None, "x", 1.0)
    assert made.changed_megabytes is None
    assert "None" not in table([made])


def test_the_table_says_what_an_image_weighs_and_what_it_took() -> None:
    line = table([Row("omnilearn-runtime:dev", "i", 5100.0, 12, 2, 1.24, 7.5)]).splitlines()[1]
    assert line.split() == ["omnilearn-runtime:dev", "5,100", "MB", "12", "2", "1.2", "MB", "7.5", "s"]


def test_a_full_disk_is_told_of_before_a_build() -> None:
    sentence = missing_space(["runtime"], {"runtime": False}, archive=True, free=3_000_000_000)
    assert sentence == "18 GB of free disk are needed, and there are 3.0: make room, or build fewer images"
    assert missing_space(["runtime"], {"runtime": True}, archive=False, free=3_000_000_000) is None


def test_an_archive_is_written_once_for_an_image(tmp_path: Path) -> None:
    engine = Shelf()
    for made, expected in (("ab", 1), ("ab", 1), ("ac", 2)):
        images.write_archive(engine, image(made), "omnilearn-operator:dev", tmp_path / "operator.tar")
        assert len(engine.saved) == expected


def test_an_archive_is_written_again_under_another_name(tmp_path: Path) -> None:
    engine = Shelf()
    for name in ("omnilearn-operator:dev", "omnilearn-operator:other"):
        images.write_archive(engine, image("ab"), name, tmp_path / "operator.tar")
    assert len(engine.saved) == 2


def test_nothing_is_built_when_nothing_has_changed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    engine = Shelf(image("ab"), image("ac"), image("ad"))
    for arguments, expected in (([], "ab"), ([], "ab"), (["--index", "x"], "ac"), (["--index", "x"], "ac")):
        (made,) = images.build(engine, options_of(["operator", *arguments], {}))
        assert made.id == f"sha256:{expected}"
    engine.recipe = "another base image"
    assert images.build(engine, options_of(["operator", "--index", "x"], {}))[0].id == "sha256:ad"


def test_an_image_that_somebody_else_has_replaced_is_built_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    engine = Shelf(image("ab"), image("ac"))
    (made,) = images.build(engine, options_of(["operator"], {}))
    engine.images[made.image] = image("xy")
    assert images.build(engine, options_of(["operator"], {}))[0].id == "sha256:ac"


def test_what_an_image_is_made_from_does_not_include_what_docker_ignores(tmp_path: Path) -> None:
    for file, text in {"Dockerfile": "FROM x", ".dockerignore": "*\n!source\n", "source/a.py": "1"}.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    build = Build(tmp_path, "operator", "x", "1", {})
    first = inputs(build, "")
    (tmp_path / "notes.md").touch()
    (tmp_path / "source" / "__pycache__").mkdir()
    (tmp_path / "source" / "__pycache__" / "a.pyc").touch()
    assert inputs(build, "") == first
    (tmp_path / "source" / "a.py").write_text("2")
    assert inputs(build, "") != first


def test_notes_that_cannot_be_read_are_none(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "built.json")
    assert notes.read("x") is None
    (tmp_path / "built.json").write_text("{")
    assert notes.read("x") is None
    notes.write("x", ["a", "b"])
    assert notes.read("x") == ["a", "b"]


def test_a_docker_command_without_an_engine_does_not_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\nexit 1\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    assert not images_engines.docker_answers()
    docker.write_text("#!/bin/sh\necho 27.1\n")
    assert images_engines.docker_answers()


def test_without_rights_the_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(BuildError, match=r"start a Docker engine, or, on Debian as root: apt-get install buildah"):
        images_store.need_tools()


def test_a_command_that_fails_is_told_of_in_a_sentence() -> None:
    with pytest.raises(BuildError, match=r"false failed \(exit code 1\)"):
        images_engines.run(["false"])
    with pytest.raises(BuildError, match="cannot be started"):
        images_engines.run(["/nonexistent/buildah"])


def test_a_build_trusts_whom_the_host_trusts_and_uses_what_it_has_fetched(tmp_path: Path) -> None:
    authorities = tmp_path / "ca.crt"
    authorities.touch()
    environment = {"SSL_CERT_FILE": str(authorities), "XDG_CACHE_HOME": str(tmp_path)}
    mounts = {argument: (source, target) for source, target, argument in images_store.host_mounts(environment)}
    assert mounts["SSL_CERT_FILE"] == (authorities, "/etc/ssl/certs/ca-certificates.crt")
    assert mounts["UV_CACHE_DIR"] == (tmp_path / "uv", "/var/cache/uv")
    assert images_store.cache_folder(environment) == tmp_path / "omnilearn" / "images"


def test_sizes_of_layers_are_read_from_the_store(tmp_path: Path) -> None:
    assert images_store.layer_sizes(tmp_path) == {}
    (tmp_path / "overlay-layers").mkdir()
    layers = [{"id": "1", "diff-digest": "sha256:a", "diff-size": 7}, {"id": "2"}]
    (tmp_path / "overlay-layers" / "layers.json").write_text(json.dumps(layers))
    assert images_store.layer_sizes(tmp_path) == {"sha256:a": 7}


def test_nothing_of_the_host_stays_in_the_base_image(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "resolv.conf").touch()
    archives = tmp_path / "var" / "cache" / "apt" / "archives"
    archives.mkdir(parents=True)
    (archives / "python3.deb").touch()
    images_store.strip(tmp_path)
    assert sorted(str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*")) == [
        "etc", "var", "var/cache", "var/cache/apt",
    ]  # fmt: skip
