"""The processes of a peer, one per slot: started, killed and ended by `peers`."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from .peers_watch import Watch

ROOT = Path(__file__).parents[1]
CACHE = ROOT / ".cache"
SLOTS = 4


class Crew:
    """Processes that all end with this object; whatever they start is tied to them by the kernel."""

    def __init__(self, folder: Path, watch: Watch, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._watch = watch
        # Compiled modules are kept: importing torch from its sources would be counted against those who restart.
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self._environment = {
            **inherited,
            "PYTHONPYCACHEPREFIX": str(CACHE / "bytecode"),
            "PEERS_SOCKET": str(watch.path),
            "PEERS_FOLDER": str(folder),
            "TMPDIR": str(folder),
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo",
            "RUST_LOG": "off",
            **environment,
        }
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait(30)

    def start(self, slot: int, module: str, arguments: Sequence[str] = ()) -> None:
        """Start the process of a slot; its output goes to a file."""
        with (self._folder / f"{slot}.log").open("ab") as log:
            self._processes[slot] = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=ROOT,
                env={**self._environment, "PEERS_SLOT": str(slot)},
                stdout=log,
                stderr=log,
            )

    def kill_worker(self, slot: int) -> None:
        """Kill the process that trains in a slot, and only that."""
        os.kill(self._watch.pid_of(slot), signal.SIGKILL)

    def kill(self, slot: int) -> None:
        """Kill everything of a slot, as when its pod goes."""
        self.kill_worker(slot)
        self._processes[slot].kill()
        self._processes[slot].wait(30)

    def last_words(self) -> str:
        """Return which processes ended by themselves, and the last line of every slot."""
        ended = [f"slot {slot} ended with {one.poll()}" for slot, one in self._processes.items() if one.poll()]
        logs = {log.stem: log.read_text(errors="replace").split("\n") for log in sorted(self._folder.glob("*.log"))}
        lines = {slot: [line.strip() for line in log if line.strip()] for slot, log in logs.items()}
        return "; ".join(ended + [f"slot {slot} said last: {said[-1][:200]}" for slot, said in lines.items() if said])


def free_port() -> int:
    """Return a port of this machine that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def install() -> Path:
    """Install torchft apart from our environment, unless it is there; return the folder for PYTHONPATH.

    It uses the torch of our environment: only what torchft adds is in the folder.
    """
    requirements, place = ROOT / "requirements" / "peers.txt", CACHE / "peers"
    stamp, wanted = place / ".ready", hashlib.sha256(requirements.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text(encoding="ascii") == wanted:
        return place
    shutil.rmtree(place, ignore_errors=True)
    uv = Path(sys.executable).with_name("uv")
    command = [str(uv), "pip", "install", "--quiet", "--python", sys.executable, "--target", str(place)]
    command += ["--no-deps", "--require-hashes", "-r", str(requirements)]
    subprocess.run(command, check=True, timeout=600)
    stamp.write_text(wanted, encoding="ascii")
    return place
