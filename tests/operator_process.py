"""The operator's own program as a process of a test, led to an API server by a kubeconfig."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

_LOOK_SECONDS = 0.2
_END_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Ports:
    """Where it listens."""

    coordinator: int
    metrics: int
    health: int


def free_ports() -> Ports:
    """Return ports that nobody listens at."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(3)]
        for each in sockets:
            each.bind(("", 0))
        return Ports(*(each.getsockname()[1] for each in sockets))


class OperatorProcess:
    """One that runs."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, ports: Ports) -> None:
        self._process, self._log, self.ports = process, log, ports

    @property
    def lives(self) -> bool:
        """True until it has ended."""
        return self._process.poll() is None

    @property
    def log(self) -> str:
        """What it has written so far."""
        return self._log.read_text(errors="replace")

    def leads(self) -> bool:
        """Tell whether it leads, by its metrics."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports.metrics}/metrics", timeout=5) as answer:
                return b"omnilearn_leads 1.0" in answer.read()
        except OSError:
            return False

    def until(self, what: str, true: Callable[[], bool], seconds: float) -> None:
        """Wait until something is true; fail with a sentence if it is not within this time, or the process ends."""
        until = time.monotonic() + seconds
        while not true():
            assert self.lives, f"{what}: the operator has ended with {self._process.returncode}"
            assert time.monotonic() < until, f"{what}: not within {seconds:g} s"
            time.sleep(_LOOK_SECONDS)


@contextmanager
def operator_process(
    kubeconfig: Path, folder: Path, namespace: str, ports: Ports | None = None, **variables: str
) -> Iterator[OperatorProcess]:
    """Run the operator for the jobs of one namespace, which is also its own; its log is printed at the end."""
    ports = ports or free_ports()
    ours = {
        "KUBECONFIG": str(kubeconfig),
        "OMNILEARN_OWN_NAMESPACE": namespace,
        "OMNILEARN_NAMESPACES": namespace,
        "OMNILEARN_COORDINATOR_PORT": str(ports.coordinator),
        "OMNILEARN_METRICS_PORT": str(ports.metrics),
        "OMNILEARN_HEALTH_PORT": str(ports.health),
        "OMNILEARN_LOG_FORMAT": "text",
    }
    others = {name: value for name, value in os.environ.items() if not name.startswith(("OMNILEARN_", "KUBERNETES_"))}
    log = folder / "operator.log"
    with log.open("wb") as written:
        process = subprocess.Popen(
            [sys.executable, "-m", "omnilearn_operator"],
            env=others | ours | variables,
            stdout=written,
            stderr=subprocess.STDOUT,
        )
    made = OperatorProcess(process, log, ports)
    try:
        yield made
    finally:
        process.terminate()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        sys.stdout.write(made.log)
