"""Images without a registry: the pause image, made by hand, and importing archives into containerd."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
import tempfile
from pathlib import Path

from cluster import commands, versions
from cluster.layout import Places

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_IMPORT_SECONDS = 900


def archive(name: str, program: bytes, architecture: str) -> bytes:
    """Return a docker-archive of an image that has this one program, the same bytes for the same program."""
    layer = _tar({"pause": program}, mode=0o755)
    configuration = json.dumps(
        {
            "architecture": architecture,
            "os": "linux",
            "config": {"Entrypoint": ["/pause"], "User": "65535:65535"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_digest(layer)}"]},
            "history": [{"created_by": "omnilearn"}],
        }
    ).encode()
    files = {f"{_digest(configuration)}.json": configuration, "layer.tar": layer}
    manifest = [{"Config": f"{_digest(configuration)}.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    return _tar({**files, "manifest.json": json.dumps(manifest).encode()}, mode=0o644)


def importer(socket: Path) -> tuple[str, ...]:
    """Return the command that imports an archive into the node; the archive's path comes last."""
    return (*_ctr(socket), "images", "import")


def names(places: Places) -> set[str]:
    """Return the names of the images that the node has."""
    return set(commands.run(*_ctr(places.socket), "images", "list", "--quiet").split())


def ensure_pause(places: Places, program: Path) -> None:
    """Import the pause image unless it is there."""
    if versions.PAUSE_IMAGE in names(places):
        return
    machine = platform.machine()
    made = archive(versions.PAUSE_IMAGE, program.read_bytes(), _ARCHITECTURES.get(machine, machine))
    with tempfile.NamedTemporaryFile(suffix=".tar", dir=places.folder) as file:
        file.write(made)
        file.flush()
        commands.run(*importer(places.socket), file.name, seconds=_IMPORT_SECONDS)


def answers(places: Places) -> bool:
    """Tell whether containerd answers."""
    return places.socket.exists() and commands.succeeds(*_ctr(places.socket), "version", seconds=5)


def _ctr(socket: Path) -> tuple[str, ...]:
    return ("ctr", "--address", str(socket), "--namespace", "k8s.io")


def _tar(files: dict[str, bytes], mode: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
