"""Images on their way into a cluster without a registry."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Collection
from pathlib import Path

import pytest
from scripts.images_delivery import Delivery, deliver
from scripts.images_engines import Build, BuildError, Image
from scripts.images_layout import blob, full_name, make_holes, pack

from scripts import images

NAME = "localhost/omnilearn-runtime:dev"


class Sender:
    """An engine that notes what it was asked to send."""

    name = "sender"
    recipe = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sent: list[str] = []

    def build(self, build: Build) -> None:
        raise AssertionError

    def image(self, name: str) -> Image | None:
        raise AssertionError

    def save(self, name: str, archive: Path) -> None:
        self._write(archive, "all")

    def save_changes(self, name: str, archive: Path, known: Collection[str]) -> None:
        self._write(archive, f"all but {''.join(sorted(known))}")

    def _write(self, archive: Path, what: str) -> None:
        archive.write_text(what)
        self.sent.append(what)


def image(layers: str) -> Image:
    return Image(layers, 1, tuple(layers))


def cluster(folder: Path, refuse: str = "nothing") -> Delivery:
    """Return a cluster that refuses archives with some text."""
    return Delivery(["sh", "-c", f"! grep -q '{refuse}' $0"], folder / "images" / "memory.json")


def test_the_first_time_everything_is_sent(tmp_path: Path) -> None:
    engine = Sender(tmp_path)
    assert deliver(engine, NAME, image("abc"), cluster(tmp_path)) == pytest.approx(3e-6)
    assert engine.sent == ["all"]


def test_later_only_layers_that_the_cluster_does_not_have_are_sent(tmp_path: Path) -> None:
    engine = Sender(tmp_path)
    for layers in ("abc", "abd", "abd"):
        deliver(engine, NAME, image(layers), cluster(tmp_path))
    assert engine.sent == ["all", "all but ab", "all but abd"]


def test_a_cluster_that_has_lost_its_images_gets_everything_again(tmp_path: Path) -> None:
    engine = Sender(tmp_path)
    deliver(engine, NAME, image("abc"), cluster(tmp_path))
    deliver(engine, NAME, image("abd"), cluster(tmp_path, refuse="all but"))
    assert engine.sent == ["all", "all but ab", "all"]


def test_an_import_that_fails_is_not_remembered(tmp_path: Path) -> None:
    engine = Sender(tmp_path)
    with pytest.raises(BuildError):
        deliver(engine, NAME, image("abc"), cluster(tmp_path, refuse="all"))
    deliver(engine, NAME, image("abc"), cluster(tmp_path))
    assert engine.sent == ["all", "all"]


def test_nothing_of_a_delivery_stays_on_the_disk(tmp_path: Path) -> None:
    deliver(Sender(tmp_path), NAME, image("abc"), cluster(tmp_path))
    assert [each.name for each in tmp_path.iterdir()] == ["images"]


def test_a_delivery_needs_a_memory(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        images.options_of(["--into", "ctr images import"], {})
    assert "--into needs --memory" in capsys.readouterr().err
    options = images.options_of(["--into", "ctr images import", "--memory", "m.json"], {})
    assert images.delivery_of(options) == Delivery(["ctr", "images", "import"], Path("m.json"))


def test_a_hole_has_the_size_of_its_layer_and_takes_no_disk(tmp_path: Path) -> None:
    make_holes(tmp_path, {"sha256:aa": 10**12})
    status = blob(tmp_path, "sha256:aa").stat()
    assert (status.st_size, status.st_blocks) == (10**12, 0)


def test_an_archive_has_everything_but_the_layers_that_are_known(tmp_path: Path) -> None:
    layout, archive = tmp_path / "layout", tmp_path / "image.tar"
    make_holes(layout, {"sha256:aa": 5, "sha256:bb": 5})
    (layout / "index.json").write_text(json.dumps({"manifests": [{"digest": "sha256:bb"}]}))
    pack(layout, NAME, ["sha256:aa"], archive)
    with tarfile.open(archive) as tar:
        assert tar.getnames() == ["blobs/sha256/bb", "index.json"]
        file = tar.extractfile("index.json")
        assert file is not None
        (manifest,) = json.load(file)["manifests"]
    assert manifest["annotations"] == {"io.containerd.image.name": NAME}


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("omnilearn-runtime:1", "docker.io/library/omnilearn-runtime:1"),
        ("team/omnilearn-runtime:1", "docker.io/team/omnilearn-runtime:1"),
        ("localhost/omnilearn-runtime:1", "localhost/omnilearn-runtime:1"),
        ("registry.example:5000/a/b:1", "registry.example:5000/a/b:1"),
    ],
)
def test_an_image_is_called_as_kubernetes_understands_its_name(name: str, full: str) -> None:
    assert full_name(name) == full
