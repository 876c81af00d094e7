"""The same fault under two peers: python -m benchmarks.peers [--quick] [--json FILE].

Four workers on this machine train a net of 270 thousand parameters in steps of 40 ms, under torchrun (elastic) and
under torchft. One is killed; the time runs from the SIGKILL to the first step beyond all steps finished before that
was made without it. Then it comes back; the longest time without a new step is what that costs the others, one step of
40 ms included. There are no goals here: these figures stand beside our own recovery times.

torchrun has four agents with one worker each, as in pods, and saves a checkpoint after every step. Its rendezvous
lives in the first agent, which is therefore never killed. Rendezvous and gloo connect over loopback; torch's TCPStore
and torchft's Manager listen on all interfaces, on free ports, and offer no choice.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table

from .peers_crew import SLOTS, Crew, free_port, install
from .peers_watch import Step, Watch, longest_pause, recovery, usual_step
from .printing import console

PATIENCE_SECONDS = 180.0
SETTLING_STEPS = 20
LIGHTHOUSE = SLOTS
# By default torch 2.13 keeps one store for all rounds: workers that restart read the addresses of the dead in it.
FRESH_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
HASTY = "keep_alive_interval=1,keep_alive_max_attempt=3,last_call_timeout=1"


@dataclass(frozen=True, slots=True)
class Effort:
    """How many kills of each kind."""

    workers: int
    pods: int
    hasty_pods: int
    replicas: int


FULL = Effort(workers=6, pods=3, hasty_pods=5, replicas=10)
QUICK = Effort(workers=2, pods=0, hasty_pods=2, replicas=2)


@dataclass(frozen=True, slots=True)
class Findings:
    """What was seen, by system and fault: times in seconds, waits given up, usual step times, and what went wrong."""

    seconds: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    given_up: Counter[tuple[str, str]] = field(default_factory=Counter)
    steps: dict[str, float] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return plain data."""
        rows = [
            {
                "system": system,
                "fault": fault,
                "n": len(each),
                "given_up": self.given_up[system, fault],
                "median": median(each) if each else None,
                "worst": max(each, default=None),
                "all": each,
            }
            for (system, fault), each in self.seconds.items()
        ]
        return {"rows": rows, "usual_step": self.steps, "missing": self.missing, "load": self.load()}

    @staticmethod
    def load() -> float:
        """Return how many processes wanted a core in the last minute: much of a restart is the import of torch."""
        return os.getloadavg()[0]


@dataclass(frozen=True, slots=True)
class Scene:
    """A peer at work."""

    name: str
    watch: Watch
    crew: Crew
    findings: Findings

    def settle(self, since: float) -> Step:
        """Wait until all have trained together for a while; return their first step together."""
        first = self.watch.wait(lambda step: step.world == SLOTS, since, PATIENCE_SECONDS)
        self.watch.wait(lambda step: step.number >= first.number + SETTLING_STEPS, first.at, PATIENCE_SECONDS)
        return first

    def lose(self, kill: Callable[[], None], fresh: Callable[[Step], bool], fault: str) -> None:
        """Kill, wait until those who are fresh have gone beyond all that was done, and note the time."""
        furthest, killed = self.watch.furthest(), time.monotonic()
        with self._noting(fault) as note:
            kill()
            # A step that was under way may still end without them: two further is surely theirs.
            self.watch.wait(lambda step: fresh(step) and step.number > furthest + 1, killed, PATIENCE_SECONDS)
            note(recovery(self.watch.steps, killed, fresh))

    def regain(self, start: Callable[[], None], fault: str) -> None:
        """Start what was killed, wait until all are together, and note how long the others stood still."""
        started = time.monotonic()
        with self._noting(fault) as note:
            start()
            end = self.settle(started).at + 1.0
            note(longest_pause(self.watch.steps, started, end))

    @contextmanager
    def _noting(self, fault: str) -> Iterator[Callable[[float], None]]:
        """Give what notes a time; a wait without end is counted too, or the figures would look better than it was."""
        times = self.findings.seconds[self.name, fault]
        try:
            yield times.append
        except TimeoutError:
            self.findings.given_up[self.name, fault] += 1
            raise
        print(f"… {self.name}, {fault}: {times[-1]:.3f} s", flush=True)


@contextmanager
def scene(name: str, findings: Findings, environment: Mapping[str, str]) -> Iterator[Scene]:
    """Give a peer a place of its own; when it does not do what is expected, say so and go on."""
    with tempfile.TemporaryDirectory(prefix="peers-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        with Watch(folder / "steps") as watch, Crew(folder, watch, environment) as crew:
            try:
                yield Scene(name, watch, crew, findings)
            except (TimeoutError, OSError) as error:
                findings.missing.append(f"{name} did not go on ({error}); {watch.standing()}; {crew.last_words()}")
            findings.steps[name] = usual_step(watch.steps)


def torchrun_agent(port: int, slot: int, conf: str) -> list[str]:
    """Return the command line of an agent; the first hosts the rendezvous."""
    settings = ",".join(filter(None, [f"is_host={int(slot == 0)}", conf]))
    return [
        f"--nnodes={SLOTS - 1}:{SLOTS}", "--nproc-per-node=1", "--max-restarts=100",
        "--rdzv-backend=c10d", "--rdzv-id=peers", f"--rdzv-endpoint=127.0.0.1:{port}", f"--rdzv-conf={settings}",
        "--local-addr=127.0.0.1", "-m", "benchmarks.peers_torchrun",
    ]  # fmt: skip


def torchrun(findings: Findings, name: str, conf: str, workers: int, pods: int) -> None:
    """Kill workers whose agents stay, then agents with their workers."""
    port = free_port()
    with scene(name, findings, FRESH_STORE) as at:

        def start(slot: int) -> None:
            at.crew.start(slot, "benchmarks.peers_agent", torchrun_agent(port, slot, conf))

        for slot in range(SLOTS):
            start(slot)
        at.settle(0.0)
        for turn in range(workers):
            _lose_worker(at, turn % SLOTS)
        for turn in range(pods):
            _lose_and_regain(at, 1 + turn % (SLOTS - 1), start, "an agent and its worker are killed")


def torchft(findings: Findings, kills: int) -> None:
    """Kill replica groups."""
    try:
        place = install()
    except (OSError, subprocess.SubprocessError) as error:
        findings.missing.append(f"torchft could not be installed: {error}")
        return
    path = os.pathsep.join(filter(None, [str(place), os.environ.get("PYTHONPATH", "")]))
    environment = {"PYTHONPATH": path, "TORCHFT_LIGHTHOUSE": f"http://127.0.0.1:{free_port()}"}
    with scene("torchft", findings, environment) as at:

        def start(slot: int) -> None:
            at.crew.start(slot, "benchmarks.peers_torchft")

        at.crew.start(LIGHTHOUSE, "benchmarks.peers_torchft", ["lighthouse"])
        for slot in range(SLOTS):
            start(slot)
        at.settle(0.0)
        for turn in range(kills):
            _lose_and_regain(at, turn % SLOTS, start, "a replica group is killed")


def _lose_worker(at: Scene, slot: int) -> None:
    old, began = {step.pid for step in at.watch.steps}, time.monotonic()
    at.lose(lambda: at.crew.kill_worker(slot), lambda step: step.pid not in old, "a worker is killed, its agent stays")
    at.settle(began)


def _lose_and_regain(at: Scene, slot: int, start: Callable[[int], None], fault: str) -> None:
    at.lose(lambda: at.crew.kill(slot), lambda step: step.world < SLOTS, fault)
    at.regain(lambda: start(slot), "it comes back: the others stand still")


def table(findings: Findings) -> Table:
    """Return what was seen as a table."""
    shown = Table(title="The same fault under two peers: seconds to the next new step, steps of 40 ms")
    for column in ("system", "fault"):
        shown.add_column(column)
    for column in ("n", "given up", "median", "worst", "usual step"):
        shown.add_column(column, justify="right")
    for (system, fault), each in findings.seconds.items():
        figures = [f"{median(each):.3f} s", f"{max(each):.3f} s"] if each else ["", ""]
        step = findings.steps.get(system)
        usual = f"{step * 1000:.0f} ms" if step else ""
        shown.add_row(system, fault, str(len(each)), str(findings.given_up[system, fault]), *figures, usual)
    return shown


def main() -> None:
    """Measure, print, and write down."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two kills of each kind, none with torchrun's defaults")
    parser.add_argument("--only", choices=("torchft", "torchrun", "hasty"), help="one part only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    effort = QUICK if options.quick else FULL
    findings, began = Findings(), time.monotonic()
    if options.only in (None, "torchft"):
        torchft(findings, effort.replicas)
    if options.only in (None, "torchrun"):
        torchrun(findings, "torchrun", "", effort.workers, effort.pods)
    if options.only in (None, "hasty"):
        torchrun(findings, "torchrun, hasty rendezvous", HASTY, 0, effort.hasty_pods)
    console().print(table(findings))
    print(f"load of the machine at the end: {findings.load():.1f} on {os.cpu_count()} cores")
    for sentence in findings.missing:
        print(sentence)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(findings.as_json(), indent=1) + "\n", encoding="utf-8")
        print(f"figures: {options.json}")
    print(f"took {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
