"""The node's first process: gives the node its own view of the files, then adopts orphans until it is killed.

Started by namespaces.py as process 1 of fresh namespaces, by its path and with the standard library alone. When it
dies, the kernel kills whatever the node has started and takes its mounts, interfaces and packet filter rules away.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

RUN = Path("/run/omnilearn")
READY = RUN / "ready"
SYSTEM = Path("/proc/sys")
# The kubelet insists on setting these for the whole machine. It is given files of its own in their place.
SETTINGS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)

# Mounts of others that would stay in use for as long as the node lives: containers, chroots, network namespaces.
_FOREIGN = {"overlay", "fuse.fuse-overlayfs", "nsfs", "proc", "sysfs", "devtmpfs", "devpts", "mqueue"}
_SYSTEM_FOLDERS = ("/proc", "/sys", "/dev")


def foreign(mounts: str, folder: Path) -> list[str]:
    """Return the mounts of others that the node lets go of, the deepest first, given /proc/mounts."""
    lines = [line.split() for line in mounts.splitlines() if len(line.split()) > 2]
    places = [(words[1].encode().decode("unicode_escape"), words[2]) for words in lines]
    found = [
        place
        for place, kind in places
        if kind in _FOREIGN
        and not any(Path(place).is_relative_to(system) for system in _SYSTEM_FOLDERS)
        and not folder.is_relative_to(place)
    ]
    return sorted(found, key=len, reverse=True)


def own_files(folder: Path) -> list[tuple[str, ...]]:
    """Return the commands that hide this machine's /run, /var/lib and /var/log, but for the cluster's own folder."""
    return [
        ("mount", "--make-rprivate", "/"),
        ("mount", "-t", "proc", "proc", "/proc"),
        ("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run"),
        ("mkdir", "-p", f"{RUN}/folder", f"{RUN}/settings"),
        ("mount", "--bind", str(folder), f"{RUN}/folder"),
        ("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/var/lib"),
        ("mkdir", "-p", str(folder)),
        ("mount", "--move", f"{RUN}/folder", str(folder)),
        ("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/var/log"),
    ]


def own_settings(present: list[str]) -> list[tuple[str, ...]]:
    """Return the commands that put a copy in the place of each setting."""
    copies = {setting: f"{RUN}/settings/{setting.replace('/', '.')}" for setting in present}
    copied = [("cp", f"{SYSTEM}/{setting}", copy) for setting, copy in copies.items()]
    return copied + [("mount", "--bind", copy, f"{SYSTEM}/{setting}") for setting, copy in copies.items()]


def main(folder: Path) -> None:
    """Prepare the files, say so, and stay."""
    others = foreign(Path("/proc/self/mounts").read_text(encoding="utf-8"), folder)
    # Some go with those that they are below.
    _run([("umount", "--lazy", place) for place in others], must=False)
    _run(own_files(folder))
    _run(own_settings([setting for setting in SETTINGS if (SYSTEM / setting).exists()]))
    # Volumes that pods mount for others to see need a shared tree; it is shared within the node only.
    _run([("mount", "--make-rshared", "/")])
    # From here on the kernel buries those who end: nobody waits for them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    READY.touch()
    while True:
        signal.pause()


def _run(commands: list[tuple[str, ...]], must: bool = True) -> None:
    for words in commands:
        subprocess.run(words, check=must, timeout=30, stderr=None if must else subprocess.DEVNULL)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
