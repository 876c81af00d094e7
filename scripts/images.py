"""Build the images of the Dockerfile by whatever engine is here, and print what they weigh and what they took.

`make images`, or: python -m scripts.images runtime --tag dev --registry localhost --archive /tmp/images
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from scripts.images_delivery import Delivery, deliver
from scripts.images_engines import Build, BuildError, Docker, Engine, Image, docker_answers
from scripts.images_inputs import Notes, inputs
from scripts.images_store import Buildah, cache_folder, forget

ROOT = Path(__file__).parents[1]
TARGETS = ("operator", "runtime")
# Free disk that a first build needs, in GB: layers, and the archive if one is asked for. Later builds need little.
FIRST_BUILD = {"operator": 2, "runtime": 12}
ARCHIVE = {"operator": 1, "runtime": 6}
LATER_BUILD = 1


@dataclass(frozen=True, slots=True)
class Row:
    """What came of one image."""

    image: str
    id: str
    megabytes: float
    layers: int
    changed_layers: int
    changed_megabytes: float | None
    seconds: float
    archive: str | None = None
    sent_megabytes: float | None = None


def version() -> str:
    """Return the project's version."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])


def reference(target: str, tag: str, registry: str) -> str:
    """Return the name of an image, such as localhost/omnilearn-operator:dev."""
    return f"{registry.rstrip('/')}/omnilearn-{target}:{tag}".lstrip("/")


def build_arguments(options: argparse.Namespace) -> dict[str, str]:
    """Return the Dockerfile's arguments that differ from its defaults."""
    given = {"BASE": options.base, "INDEX": options.index, "TORCH_INDEX": options.torch_index}
    return {name: value for name, value in given.items() if value}


def delivery_of(options: argparse.Namespace) -> Delivery | None:
    """Return the cluster that the images go to, if there is one."""
    return Delivery(shlex.split(options.into), Path(options.memory)) if options.into else None


def row(image: Image, before: Image | None, name: str, seconds: float) -> Row:
    """Return the table's row of an image that has just been built."""
    known = set(before.layers) if before else set()
    changed = [layer for layer in image.layers if layer not in known]
    sizes = [image.sizes.get(layer) for layer in changed]
    return Row(
        image=name,
        id=image.id,
        megabytes=image.size / 1e6,
        layers=len(image.layers),
        changed_layers=len(changed),
        changed_megabytes=None if None in sizes else sum(size or 0 for size in sizes) / 1e6,
        seconds=seconds,
    )


def table(rows: Sequence[Row]) -> str:
    """Return the rows for people."""
    lines = [f"{'image':<40}{'size':>10}{'layers':>8}{'changed':>9}{'of':>12}{'sent':>12}{'took':>10}"]
    for each in rows:
        weight = "" if each.changed_megabytes is None else f"{each.changed_megabytes:,.1f} MB"
        sent = "" if each.sent_megabytes is None else f"{each.sent_megabytes:,.1f} MB"
        lines.append(
            f"{each.image:<40}{each.megabytes:>7,.0f} MB{each.layers:>8}{each.changed_layers:>9}{weight:>12}{sent:>12}"
            f"{each.seconds:>8.1f} s"
        )
    return "\n".join(lines)


def missing_space(targets: Sequence[str], present: Mapping[str, bool], *, archive: bool, free: int) -> str | None:
    """Return a sentence if ``free`` bytes of disk are too few for what is to be built."""
    needed = sum(LATER_BUILD if present[each] else FIRST_BUILD[each] for each in targets)
    needed += sum(ARCHIVE[each] for each in targets) if archive else 0
    if free >= needed * 1e9:
        return None
    return f"{needed} GB of free disk are needed, and there are {free / 1e9:.1f}: make room, or build fewer images"


def build(engine: Engine, options: argparse.Namespace) -> list[Row]:
    """Build each target and write the archives that were asked for."""
    names = {target: reference(target, options.tag, options.registry) for target in options.targets}
    before = {target: engine.image(name) for target, name in names.items()}
    present = {target: image is not None for target, image in before.items()}
    archives = Path(options.archive) if options.archive else None
    free = shutil.disk_usage(engine.folder if engine.folder.exists() else ROOT).free
    if sentence := missing_space(options.targets, present, archive=archives is not None, free=free):
        raise BuildError(sentence)
    delivery = delivery_of(options)
    rows = []
    for target, name in names.items():
        begun = time.monotonic()
        image = built(engine, Build(ROOT, target, name, version(), build_arguments(options)), before[target])
        archive = write_archive(engine, image, name, archives / f"omnilearn-{target}.tar") if archives else None
        sent = deliver(engine, name, image, delivery) if delivery else None
        made = row(image, before[target], name, time.monotonic() - begun)
        rows.append(replace(made, archive=str(archive) if archive else None, sent_megabytes=sent))
    return rows


def built(engine: Engine, build: Build, before: Image | None) -> Image:
    """Return an image, built unless nothing that it is made from has changed."""
    notes = Notes(cache_folder(os.environ) / "built.json")
    made_from = inputs(build, engine.recipe)
    if before is not None and notes.read(build.name) == [made_from, before.id]:
        return before
    print(f"=== {build.name} by {engine.name}", file=sys.stderr, flush=True)
    engine.build(build)
    image = engine.image(build.name)
    if image is None:
        raise BuildError(f"{engine.name} says that it has built {build.name}, but does not have it")
    notes.write(build.name, [made_from, image.id])
    return image


def write_archive(engine: Engine, image: Image, name: str, archive: Path) -> Path:
    """Write an image for import into a cluster, unless just this image is already there."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    holds, written = archive.with_suffix(".id"), f"{name} {image.id}"
    if not (archive.exists() and holds.exists() and holds.read_text() == written):
        holds.unlink(missing_ok=True)
        archive.unlink(missing_ok=True)
        engine.save(name, archive)
        holds.write_text(written)
    return archive


def options_of(arguments: Sequence[str], environment: Mapping[str, str]) -> argparse.Namespace:
    """Return what the command line and the environment ask for."""
    index = next((environment[each] for each in ("UV_DEFAULT_INDEX", "PIP_INDEX_URL") if environment.get(each)), "")
    parser = argparse.ArgumentParser(prog="scripts.images", description="Build the images.")
    parser.add_argument("targets", nargs="*", help="operator, runtime; none: both")
    parser.add_argument("--tag", default=version(), help="the project's version unless given")
    parser.add_argument("--registry", default="", help="what the names begin with, such as localhost")
    parser.add_argument("--archive", metavar="DIR", help="also write <DIR>/omnilearn-<target>.tar, for import")
    parser.add_argument("--into", metavar="COMMAND", help="also import them, by a command that gets an archive's path")
    parser.add_argument("--memory", metavar="FILE", help="with --into: remembers which layers need not be sent again")
    parser.add_argument("--base", default=environment.get("OMNILEARN_BASE", ""), help="base image")
    parser.add_argument("--index", default=index, help="package index (else UV_DEFAULT_INDEX, PIP_INDEX_URL)")
    parser.add_argument("--torch-index", default=environment.get("OMNILEARN_TORCH_INDEX", ""), help="index of torch")
    parser.add_argument("--json", metavar="FILE", help="also write the table as JSON")
    parser.add_argument("--forget", action="store_true", help="remove buildah's layers and images of this project")
    options = parser.parse_args(arguments)
    options.targets = options.targets or list(TARGETS)
    if unknown := sorted(set(options.targets) - set(TARGETS)):
        parser.error(f"there is no image {', '.join(unknown)}: choose from {', '.join(TARGETS)}")
    if options.into and not options.memory:
        parser.error("--into needs --memory: name a file that lives as long as the cluster's images")
    return options


def main(arguments: Sequence[str]) -> int:
    """Build what is asked for; return the exit code."""
    options = options_of(arguments, os.environ)
    try:
        if options.forget:
            print(forget(cache_folder(os.environ)))
            return 0
        rows = build(Docker() if docker_answers() else Buildah(cache_folder(os.environ)), options)
    except BuildError as error:
        print(f"images: {error}", file=sys.stderr)
        return 1
    print(table(rows))
    if options.json:
        file = Path(options.json)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps([asdict(each) for each in rows], indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
