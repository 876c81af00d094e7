"""An image as an OCI layout from which layers are missing, for a cluster that has them."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Collection, Mapping
from pathlib import Path

# By this annotation of the index containerd knows what to call an image.
NAME_ANNOTATION = "io.containerd.image.name"


def blob(layout: Path, digest: str) -> Path:
    """Return the file of a layout that holds the content with a digest."""
    return layout.joinpath("blobs", *digest.split(":"))


def full_name(name: str) -> str:
    """Return a name as Kubernetes understands it: without a registry, it is one of Docker's."""
    first, _, rest = name.partition("/")
    if rest and (first == "localhost" or set(first) & {".", ":"}):
        return name
    return f"docker.io/{name}" if rest else f"docker.io/library/{name}"


def make_holes(layout: Path, sizes: Mapping[str, int]) -> None:
    """Pretend that layers are there: whoever writes the layout finds files of their names and sizes, and skips them."""
    for digest, size in sizes.items():
        file = blob(layout, digest)
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as hole:
            hole.truncate(size)


def pack(layout: Path, name: str, omitted: Collection[str], archive: Path) -> None:
    """Write a layout of one image as an archive, under a name, without some of its layers."""
    index_file = layout / "index.json"
    index = json.loads(index_file.read_text(encoding="utf-8"))
    (manifest,) = index["manifests"]
    manifest["annotations"] = {NAME_ANNOTATION: full_name(name)}
    index_file.write_text(json.dumps(index), encoding="utf-8")
    left_out = {blob(layout, digest) for digest in omitted}
    with tarfile.open(archive, "w") as tar:
        for file in sorted(layout.rglob("*")):
            if file.is_file() and file not in left_out:
                tar.add(file, str(file.relative_to(layout)))
