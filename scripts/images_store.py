"""Images without a Docker engine and without a registry: buildah, with a store of its own in the cache folder.

The base image is made by debootstrap and takes the place of the Dockerfile's by its argument BASE. The host's
authorities and uv's cache are mounted, so that a build trusts whom the host trusts and fetches nothing twice.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from scripts.images_engines import Build, BuildError, Image, ask, run
from scripts.images_layout import make_holes, pack

SUITE = "bookworm"
PACKAGES = ("ca-certificates", "python3", "python3-venv")
# What debootstrap leaves of packages, and what it copies from the host
LEFTOVERS = (
    "etc/hostname", "etc/resolv.conf", "usr/share/info", "usr/share/locale", "usr/share/man", "var/cache/apt",
    "var/lib/apt/lists", "var/log/apt", "var/log/bootstrap.log", "var/log/dpkg.log",
)  # fmt: skip
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
# Counts mounts, so it must not outlive them: /run is empty after a start of the machine.
RUN_FOLDER = "/run/omnilearn-images"
LOCK_SECONDS = 3600


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Return where layers are kept, outside the work tree."""
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "omnilearn" / "images"


def uv_cache_folder(environment: Mapping[str, str]) -> Path:
    """Return where uv keeps packages on this machine."""
    fallback = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "uv"
    return Path(environment.get("UV_CACHE_DIR") or fallback)


def base_name() -> str:
    """Return the name of the base image: it changes when its recipe does."""
    recipe = "\n".join((SUITE, *PACKAGES, *LEFTOVERS))
    return f"localhost/omnilearn-base:{SUITE}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


class Buildah:
    """Buildah as root, with its own images and layers."""

    name = "buildah"

    def __init__(self, folder: Path) -> None:
        need_tools()
        self.folder, self.recipe = folder, base_name()
        folder.mkdir(parents=True, exist_ok=True)

    def build(self, build: Build) -> None:
        """Build an image, the base image first if there is none."""
        with locked(self.folder):
            # Builds that were killed leave their containers, each with all that it has written.
            ask(self._command("rm", "--all"))
            base = build.arguments.get("BASE") or self._base()
            arguments = {**build.arguments, "BASE": base}
            mounts: list[str] = []
            for source, target, argument in host_mounts(os.environ):
                mounts += ["--volume", f"{source}:{target}"]
                arguments[argument] = target
            options = replace(build, arguments=arguments).options()
            dockerfile = str(build.folder / "Dockerfile")
            self._run("bud", "--layers", *options, *mounts, "--file", dockerfile, str(build.folder))

    def image(self, name: str) -> Image | None:
        """Return an image, None if there is none of that name."""
        answer = ask(self._command("inspect", "--type", "image", name))
        if answer is None:
            return None
        found = json.loads(answer)
        layers = tuple(found["OCIv1"]["rootfs"]["diff_ids"])
        sizes = layer_sizes(self.folder / "store")
        return Image(found["FromImageID"], sum(sizes.get(each, 0) for each in layers), layers, sizes)

    def save(self, name: str, archive: Path) -> None:
        """Write an image as a docker-archive."""
        self._run("push", "--quiet", name, f"docker-archive:{archive}:{name}")

    def save_changes(self, name: str, archive: Path, known: Collection[str]) -> None:
        """Write an image without the known layers, as an archive of an OCI layout."""
        image = self.image(name)
        if image is None:
            raise BuildError(f"there is no image {name}: build it first")
        omitted = {each: image.sizes[each] for each in image.layers if each in known}
        with tempfile.TemporaryDirectory(dir=self.folder, prefix="layout-") as folder:
            layout = Path(folder)
            make_holes(layout, omitted)
            self._run("push", "--quiet", "--disable-compression", name, f"oci:{layout}:image")
            pack(layout, name, omitted, archive)

    def _base(self) -> str:
        """Return the base image, made by debootstrap if it is not there."""
        name = base_name()
        if self.image(name) is None:
            with tempfile.TemporaryDirectory(dir=self.folder, prefix="base-") as folder:
                # Python makes private folders; this one becomes the root of everybody's file system.
                Path(folder).chmod(0o755)
                run(["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, folder])
                strip(Path(folder))
                container = self._ask("from", "scratch")
                self._run("add", "--quiet", container, folder, "/")
                self._run("config", "--cmd", "python3", container)
                self._run("commit", "--quiet", "--rm", container, name)
        return name

    def _command(self, *arguments: str) -> list[str]:
        store = ["--root", str(self.folder / "store"), "--runroot", RUN_FOLDER, "--storage-driver", "overlay"]
        return ["buildah", *store, *arguments]

    def _run(self, *arguments: str) -> None:
        run(self._command(*arguments), {"BUILDAH_ISOLATION": "chroot"})

    def _ask(self, *arguments: str) -> str:
        answer = ask(self._command(*arguments))
        if answer is None:
            raise BuildError(f"buildah {arguments[0]} failed: try it by hand to see why")
        return answer.strip()


def host_mounts(environment: Mapping[str, str]) -> Iterator[tuple[Path, str, str]]:
    """Yield what a build gets from the host: where it lies, where it is mounted, and the argument that says so."""
    authorities = Path(environment.get("SSL_CERT_FILE") or AUTHORITIES)
    if authorities.is_file():
        yield authorities.resolve(), AUTHORITIES, "SSL_CERT_FILE"
    cache = uv_cache_folder(environment)
    cache.mkdir(parents=True, exist_ok=True)
    yield cache.resolve(), "/var/cache/uv", "UV_CACHE_DIR"


def layer_sizes(store: Path) -> dict[str, int]:
    """Return the sizes of a store's layers by the digests of their contents."""
    known = store / "overlay-layers" / "layers.json"
    layers = json.loads(known.read_text(encoding="utf-8")) if known.exists() else []
    return {each["diff-digest"]: int(each.get("diff-size", 0)) for each in layers if "diff-digest" in each}


def strip(root: Path) -> None:
    """Remove from a fresh system what an image does not need, and what came from the host."""
    for each in LEFTOVERS:
        found = root / each
        if found.is_dir():
            shutil.rmtree(found)
            found.mkdir()
        else:
            found.unlink(missing_ok=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one build at a time use the store."""
    with (folder / "lock").open("w") as file:
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise BuildError(f"another build has held {folder}/lock for an hour: end it") from None
                time.sleep(1)
        yield


def need_tools() -> None:
    """Install buildah and debootstrap if they can be; BuildError if not."""
    missing = [each for each in ("buildah", "debootstrap") if shutil.which(each) is None]
    advice = "start a Docker engine, or, on Debian as root: apt-get install buildah debootstrap"
    if os.geteuid() != 0:
        raise BuildError(f"there is no Docker engine, and without one images are built as root: {advice}")
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise BuildError(f"there is no Docker engine, and no {' and no '.join(missing)}: {advice}")
    install(missing)


def install(packages: Sequence[str]) -> None:
    """Install Debian packages."""
    environment = {"DEBIAN_FRONTEND": "noninteractive"}
    apt = ["apt-get", "-qq", "-y", "-o", "DPkg::Lock::Timeout=300"]
    run([*apt, "update"], environment)
    run([*apt, "install", "--no-install-recommends", *packages], environment)


def forget(folder: Path) -> str:
    """Remove all layers and images, and say how much they were."""
    store = folder / "store"
    if not store.exists():
        return "there is nothing to forget"
    with locked(folder):
        size = sum(layer_sizes(store).values())
        # Mounts of builds that were killed would keep their folders from going.
        answer = subprocess.run(["findmnt", "--list", "--noheadings", "--output", "TARGET"], check=False,
                                capture_output=True, text=True, timeout=60)  # fmt: skip
        for mount in answer.stdout.split():
            if Path(mount).is_relative_to(store):
                subprocess.run(["umount", "--lazy", mount], check=False, capture_output=True, timeout=60)
        shutil.rmtree(store)
    return f"{size / 1e9:.1f} GB of layers are gone from {store}"
