"""What builds images: the interface, and Docker. Buildah is in images_store.py."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

ANSWER_SECONDS = 20
BUILD_SECONDS = 3600
STANDARD_ERROR = 2


class BuildError(Exception):
    """An image cannot be built; the sentence says why and what to do."""


@dataclass(frozen=True, slots=True)
class Build:
    """An image to build."""

    folder: Path
    target: str
    name: str
    version: str
    arguments: Mapping[str, str]

    def options(self) -> list[str]:
        """Return the options that docker and buildah have in common."""
        common = ["--target", self.target, "--tag", self.name]
        for name, value in {"VERSION": self.version, **self.arguments}.items():
            common += ["--build-arg", f"{name}={value}"]
        return common


@dataclass(frozen=True, slots=True)
class Image:
    """An image as its engine has it; the size of a layer may be unknown."""

    id: str
    size: int
    layers: tuple[str, ...]
    sizes: Mapping[str, int] = field(default_factory=dict)


class Engine(Protocol):
    """Builds, knows and saves images."""

    name: str
    folder: Path
    """Where its layers lie: what a build needs of disk, it needs there."""

    recipe: str
    """What a build depends on beside the Dockerfile: how the base image is made."""

    def build(self, build: Build) -> None:
        """Build an image; what has not changed comes from the cache of layers."""

    def image(self, name: str) -> Image | None:
        """Return an image, None if there is none of that name."""

    def save(self, name: str, archive: Path) -> None:
        """Write an image as a docker-archive."""

    def save_changes(self, name: str, archive: Path, known: Collection[str]) -> None:
        """Write an image for somebody who has the known layers; an engine that cannot leave them out writes all."""


class Docker:
    """A Docker engine, with BuildKit."""

    name = "docker"
    folder = Path("/var/lib/docker")
    recipe = ""

    def build(self, build: Build) -> None:
        """Build an image."""
        run(["docker", "build", *build.options(), str(build.folder)], {"DOCKER_BUILDKIT": "1"})

    def image(self, name: str) -> Image | None:
        """Return an image, None if there is none of that name."""
        answer = ask(["docker", "image", "inspect", name])
        if answer is None:
            return None
        found = json.loads(answer)[0]
        return Image(found["Id"], found["Size"], tuple(found["RootFS"]["Layers"]))

    def save(self, name: str, archive: Path) -> None:
        """Write an image as a docker-archive."""
        run(["docker", "save", "--output", str(archive), name])

    def save_changes(self, name: str, archive: Path, known: Collection[str]) -> None:
        """Write all of an image."""
        self.save(name, archive)


def docker_answers() -> bool:
    """Tell whether there is a Docker engine: the command alone is often there without one."""
    return shutil.which("docker") is not None and ask(["docker", "info", "--format", "{{.ServerVersion}}"]) is not None


def ask(command: Sequence[str]) -> str | None:
    """Return what a short command prints, None if it fails."""
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=ANSWER_SECONDS).stdout
    except (OSError, subprocess.SubprocessError):
        return None


def run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
    """Run a long command whose output people should see; BuildError if it fails."""
    try:
        # Standard output is left to the table.
        everything = os.environ | dict(environment or {})
        subprocess.run(command, check=True, env=everything, stdout=STANDARD_ERROR, timeout=BUILD_SECONDS)
    except OSError as error:
        raise BuildError(f"{command[0]} cannot be started: {error}") from None
    except subprocess.TimeoutExpired:
        raise BuildError(f"{command[0]} was not done after {BUILD_SECONDS / 60:.0f} minutes") from None
    except subprocess.CalledProcessError as error:
        raise BuildError(f"{command[0]} failed (exit code {error.returncode}): its last lines say why") from None
