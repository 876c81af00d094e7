"""The operator that is measured: the program itself, as a process of this machine, and what it uses.

In a pod it would be the same program. Here it can be killed and started again without an image or a kubelet between,
and `/proc` tells what it uses.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from aiohttp import ClientError, ClientSession, ClientTimeout

from omnilearn_core.api import names

HOST = "127.0.0.1"
POD = "operator-0"
_COORDINATOR, _METRICS, _HEALTH = 17443, 19090, 18080
_TICKS = os.sysconf("SC_CLK_TCK")
_LINE = re.compile(r"^(\w+)(?:\{([^}]*)\})? ([0-9.e+-]+|NaN)$", re.MULTILINE)
_STOP_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Used:
    """What a process uses now, and has used until now."""

    cpu_seconds: float
    memory: int
    threads: int
    files: int


def used_by(pid: int) -> Used:
    """Return what a process uses, as the kernel counts it."""
    folder = Path(f"/proc/{pid}")
    fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    rows = dict(line.split(":", 1) for line in (folder / "status").read_text(encoding="utf-8").splitlines())
    ticks = int(fields[11]) + int(fields[12])
    memory, threads = int(rows["VmRSS"].split()[0]) * 1024, int(rows["Threads"])
    return Used(ticks / _TICKS, memory, threads, len(list((folder / "fd").iterdir())))


def cpu_of_programs(programs: tuple[str, ...]) -> dict[tuple[str, int], float]:
    """Return the CPU seconds of some programs of this machine, by name and process."""
    found: dict[tuple[str, int], float] = {}
    for each in Path("/proc").iterdir():
        if not each.name.isdigit():
            continue
        try:
            head, _, rest = (each / "stat").read_text(encoding="utf-8").rpartition(")")
        except OSError:
            continue  # it has just ended
        name = head.partition("(")[2]
        for program in programs:
            if program[:15] == name:
                fields = rest.split()
                found[program, int(each.name)] = (int(fields[11]) + int(fields[12])) / _TICKS
    return found


def series_of_jobs(names: Iterable[str]) -> int:
    """Return how many series name a job; those of requests that belong to none have an empty name there."""
    return sum('job="' in name and 'job=""' not in name for name in names)


def numbers_in(text: str) -> dict[str, float]:
    """Return the series of a text in Prometheus' format, by name and labels."""
    return {
        name if not labels else f"{name}{{{labels}}}": float(value)
        for name, labels, value in _LINE.findall(text)
    }  # fmt: skip


class Subject:
    """One operator, started and killed as the benchmark wants."""

    def __init__(self, kubeconfig: Path, namespace: str, log: Path, profile: Path | None = None) -> None:
        self._log, self._profile = log, profile
        self._environment = os.environ | {
            "KUBECONFIG": str(kubeconfig),
            "OMNILEARN_OWN_NAMESPACE": namespace,
            "OMNILEARN_NAMESPACES": namespace,
            "OMNILEARN_COORDINATOR_PORT": str(_COORDINATOR),
            "OMNILEARN_METRICS_PORT": str(_METRICS),
            "OMNILEARN_HEALTH_PORT": str(_HEALTH),
            # The identity of its pod: a container that is started again leads at once.
            "OMNILEARN_POD": POD,
            "OMNILEARN_POD_UID": "benchmark",
            "OMNILEARN_LEASE_SECONDS": "60",  # as the chart has it for one replica
        }
        self.address = (HOST, _COORDINATOR)
        self.server_name = f"omnilearn-coordinator.{namespace}.svc"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Its process."""
        if self._process is None:
            raise RuntimeError("the operator was not started")
        return self._process.pid

    def start(self) -> None:
        """Start it."""
        profiled = ("-m", "cProfile", "-o", str(self._profile)) if self._profile else ()
        command = [sys.executable, *profiled, "-m", "omnilearn_operator"]
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(command, env=self._environment, stdout=output, stderr=output)

    def kill(self) -> None:
        """Kill it, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(_STOP_SECONDS)

    def stop(self) -> None:
        """Tell it to end."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def used(self) -> Used:
        """Return what it uses; an error with the end of its log if it has ended."""
        if self._process is None or self._process.poll() is not None:
            said = self._log.read_text(encoding="utf-8", errors="replace")[-2000:] if self._log.exists() else ""
            raise RuntimeError(f"the operator has ended:\n{said}")
        return used_by(self._process.pid)

    async def numbers(self, session: ClientSession, *, jobs: bool = False) -> dict[str, float]:
        """Return its own metrics, or those of its jobs, too; none if it does not answer."""
        path = "/metrics" if jobs else "/metrics/operator"
        try:
            async with session.get(f"http://{HOST}:{_METRICS}{path}", timeout=ClientTimeout(total=30)) as answer:
                return numbers_in(await answer.text())
        except (ClientError, TimeoutError):
            return {}


def in_phase(numbers: dict[str, float], phase: str) -> int:
    """Return how many jobs are in a phase."""
    return round(numbers.get(f'omnilearn_jobs{{phase="{phase}"}}', 0.0))


def jobs_in(numbers: dict[str, float]) -> int:
    """Return how many jobs there are."""
    return round(sum(value for name, value in numbers.items() if name.startswith("omnilearn_jobs{")))


def writes_in(numbers: dict[str, float]) -> float:
    """Return how many writes the operator has made: events, and questions whose a token is, are among them."""
    reads = ('verb="get"', 'verb="list"')
    calls = [(name, value) for name, value in numbers.items() if name.startswith("omnilearn_api_calls_total{")]
    return sum(value for name, value in calls if not any(each in name for each in reads))


def calls_in(numbers: dict[str, float]) -> dict[str, float]:
    """Return the calls of the API by verb and kind."""
    found = {}
    for name, value in numbers.items():
        match = re.match(r'omnilearn_api_calls_total\{kind="(\w+)",verb="(\w+)"\}', name)
        if match:
            found[f"{match[2]} {match[1]}"] = value
    return found


def now() -> float:
    """Return the time of all figures."""
    return time.monotonic()


LABEL = {names.MANAGED_LABEL: "true"}
