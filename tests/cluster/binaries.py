"""The programs that are built from Go sources: once per version and machine, kept outside of the work tree."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from apiserver import NoGoError, cache_folder, go_command
from cluster import commands, versions
from cluster.errors import ImpossibleError
from cluster.progress import Progress

HERE = Path(__file__).parent
_LIMIT_SECONDS = 3600
_EXPECTED = "2 to 5 minutes, once"
_VERSIONED = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


@dataclass(frozen=True, slots=True)
class Build:
    """Programs that are built together; ``folder`` has all of them, or does not exist."""

    name: str
    version: str
    folder: Path
    programs: tuple[str, ...]
    words: tuple[str, ...]
    sources: Path | None = None
    expected: str = "a minute"
    gigabytes: float = 1.0

    @property
    def is_there(self) -> bool:
        """Whether it need not be built."""
        return all((self.folder / program).exists() for program in self.programs)


def kubernetes(cache: Path, sources: Path = HERE / "kubernetes") -> Build:
    """Return the build of all of Kubernetes, by a module that pins it."""
    version = versions.KUBERNETES
    commands_of_it = (f"k8s.io/kubernetes/cmd/{program}" for program in versions.KUBERNETES_PROGRAMS)
    return Build(
        name="Kubernetes", version=version, folder=cache / f"kubernetes-{version}-{_digest(sources)}",
        programs=versions.KUBERNETES_PROGRAMS,
        words=(*_build(_kubernetes_flags(version)), *commands_of_it),
        sources=sources, expected="6 to 15 minutes, once", gigabytes=3.5,
    )  # fmt: skip


def kubectl(cache: Path) -> Build:
    """Return the build of kubectl: that of all of Kubernetes if it is there, else it alone."""
    whole = kubernetes(cache)
    if whole.is_there:
        return replace(whole, programs=("kubectl",))
    only = (*_build(_kubernetes_flags(whole.version)), "k8s.io/kubernetes/cmd/kubectl")
    folder = cache / whole.folder.name.replace("kubernetes", "kubectl")
    return replace(whole, name="kubectl", folder=folder, programs=("kubectl",), words=only, expected=_EXPECTED)


def helm(cache: Path) -> Build:
    """Return the build of Helm, which takes the cluster's version for its own where it has no cluster to ask."""
    _, minor, _ = versions.KUBERNETES.split(".")
    numbered = ("helm.sh/helm/v3/pkg/lint/rules", "helm.sh/helm/v3/pkg/chartutil")
    flags = [f"-X {package}.k8sVersionMajor=1 -X {package}.k8sVersionMinor={minor}" for package in numbered]
    flags.append(f"-X helm.sh/helm/v3/internal/version.version={versions.HELM}")
    return _installed(cache, "helm", versions.HELM, "helm.sh/helm/v3/cmd/helm", " ".join(flags), gigabytes=1.5)


def coredns(cache: Path) -> Build:
    """Return the build of the DNS server."""
    return _installed(cache, "coredns", versions.COREDNS, "github.com/coredns/coredns", gigabytes=3.0)


def kind(cache: Path) -> Build:
    """Return the build of kind."""
    return _installed(cache, "kind", versions.KIND, "sigs.k8s.io/kind")


def kwok(cache: Path) -> Build:
    """Return the build of kwok, which plays nodes and pods; only what needs thousands of them asks for it."""
    return _installed(cache, "kwok", versions.KWOK, "sigs.k8s.io/kwok/cmd/kwok")


def pause(cache: Path, sources: Path = HERE / "pause") -> Build:
    """Return the build of the process that every pod has, to hold its namespaces."""
    folder = cache / f"pause-{_digest(sources)}"
    return Build("pause", "", folder, ("pause",), (*_build(""), "."), sources=sources, gigabytes=0.1)


def missing(builds: Sequence[Build]) -> list[Build]:
    """Return what has to be built."""
    return [build for build in builds if not build.is_there]


def ensure(builds: Sequence[Build], progress: Progress) -> dict[str, Path]:
    """Build what is missing; return where each program is."""
    lacking = missing(builds)
    if lacking:
        cache = lacking[0].folder.parent
        cache.mkdir(parents=True, exist_ok=True)
        go = _go(cache)
        for build in lacking:
            with progress.step(f"building {build.name} {build.version}".rstrip(), build.expected):
                _make(build, go)
    return {program: build.folder / program for build in builds for program in build.programs}


def programs_folder(environment: Mapping[str, str]) -> Path:
    """Return where all of them are kept."""
    return cache_folder(environment) / "cluster"


def _make(build: Build, go: str) -> None:
    """Build beside the place and rename: whoever sees the folder sees all of it."""
    unfinished = Path(tempfile.mkdtemp(prefix=f"{build.folder.name}.", dir=build.folder.parent))
    environment = os.environ | {
        "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "", "GOBIN": str(unfinished),
    }  # fmt: skip
    words = [str(unfinished) if word == _TARGET else word for word in build.words]
    try:
        commands.run(go, *words, seconds=_LIMIT_SECONDS, environment=environment, folder=build.sources)
        unfinished.chmod(0o755)
        shutil.rmtree(build.folder, ignore_errors=True)
        unfinished.rename(build.folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _go(cache: Path) -> str:
    try:
        return go_command(cache)
    except NoGoError as error:
        raise ImpossibleError(str(error)) from None


_TARGET = "<target>"


def _build(flags: str) -> tuple[str, ...]:
    return ("build", "-trimpath", "-buildvcs=false", "-ldflags", f"-s -w {flags}".rstrip(), "-o", f"{_TARGET}")


def _installed(cache: Path, name: str, version: str, package: str, flags: str = "", gigabytes: float = 1.0) -> Build:
    """Return the build of a program by its own module: in that of Kubernetes it would get Kubernetes' versions."""
    words = ("install", "-trimpath", "-ldflags", f"-s -w {flags}".rstrip(), f"{package}@{version}")
    folder = cache / f"{name}-{version}"
    return Build(name, version, folder, (name,), words, expected=_EXPECTED, gigabytes=gigabytes)


def _kubernetes_flags(version: str) -> str:
    major, minor, _ = version.removeprefix("v").split(".")
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return " ".join(f"-X {package}.{name}={value}" for package in _VERSIONED for name, value in values.items())


def _digest(sources: Path) -> str:
    files = sorted(file for file in sources.iterdir() if file.is_file())
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
