"""What a worker tells: a report about once a second, which cannot delay training, and a trace for people."""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from omnilearn_core.api.messages import GenerationId, WorkerReport

from .element import Kind
from .membership import Membership
from .probing import Exchange
from .progress import Progress
from .strategies.learner import Learner
from .timing import Delays, Window, Windows
from .work import Committed

log = logging.getLogger("omnilearn")

# A control window has at least so many steps: CPU quotas make single short steps uneven.
_FEWEST_STEPS = 3
# So often it is looked whether the pause has become shorter.
_LONGEST_REST_SECONDS = 1.0


class Reporter:
    """Collects what was committed and reports it until it is stopped."""

    def __init__(self, worker: str, membership: Membership, quota: Callable[[], float | None]) -> None:
        self._worker, self._membership, self._quota = worker, membership, quota
        self._windows = Windows()
        self._progress = Progress()
        self._plan, self._share = 0, 0
        self._stop, self._woken = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._report_for_ever, name="omnilearn-report", daemon=True)
        self.total_samples: int | None = None
        self.memory_bound: int | None = None
        self.cpu_quota: float | None = None
        """The limit as it was at the last report."""

        self.in_pieces = True
        self.local_steps = 0
        self.exchange: Exchange | None = None
        """What an exchange takes, while Auto wants to know it."""

        self._told: Exchange | None = None
        self._delays = Delays()
        self.logged: dict[str, float] = {}

    def start(self) -> None:
        """Begin to report."""
        self._thread.start()

    def stop(self) -> None:
        """Report no more."""
        self._stop.set()
        self._woken.set()

    def committed(self, round_: Committed) -> None:
        """Note a committed round; only undisturbed steps that began with just the share say something about it."""
        self._progress, self._plan, self._share = round_.progress, round_.plan, round_.share
        if round_.held:  # what was discarded is in nobody's model
            self._delays.add(round_.delay)
        if round_.kind is Kind.STEP and round_.as_planned and not round_.disturbed:
            self._windows.add(round_.plan, round_.share, round_.lap, round_.loss, round_.beyond, round_.steps)
        if self.exchange is not None and self.exchange is not self._told:
            # Auto waits for it, at a pace that it may be about to change.
            self._woken.set()

    def _report_for_ever(self) -> None:
        while self._rest():
            generation = self._membership.entered
            if generation is None:
                continue
            try:
                self._membership.send(self.report(generation.generation))
            except ValueError as error:
                log.debug("a report was not sent: %s", error)

    def _rest(self) -> bool:
        """Wait until the next report is due; a shorter pause counts as soon as it is told. False at the end."""
        began = time.monotonic()
        while (left := began + self._membership.report_seconds - time.monotonic()) > 0:
            if self._woken.wait(min(left, _LONGEST_REST_SECONDS)):
                break
        self._woken.clear()
        return not self._stop.is_set()

    def report(self, generation: GenerationId) -> WorkerReport:
        """Return what there is to say now."""
        window, progress = self._windows.take(_FEWEST_STEPS), self._progress
        self.cpu_quota = self._quota()
        exchange = self._told = self.exchange
        if exchange is not None and exchange.generation != generation:
            exchange = None
        staleness, most_stale = (None, 0) if window is None else self._delays.take()
        empty = {"steps": 0, "plan_version": self._plan, "share": self._share}
        return WorkerReport(
            worker=self._worker,
            generation=generation,
            step=progress.step,
            rounds=progress.round,
            epoch=progress.epoch,
            samples=progress.samples,
            total_samples=self.total_samples,
            cpu_quota=self.cpu_quota,
            memory_bound=self.memory_bound,
            in_pieces=self.in_pieces,
            local_steps=self.local_steps,
            staleness=staleness,
            most_stale=most_stale,
            exchange_seconds=None if exchange is None else exchange.seconds,
            team_exchange_seconds=None if exchange is None else exchange.team_seconds,
            skipped=progress.skipped,
            logged={name: value for name, value in self.logged.items() if math.isfinite(value)},
            **(empty if window is None else _measured(window)),
        )


def _measured(window: Window) -> dict[str, Any]:
    """Return what a report says of a window: means per step."""
    steps, total = window.steps, window.total
    return {
        "steps": steps,
        "plan_version": window.plan,
        "share": window.share,
        "compute_seconds": max(0.0, total.compute + total.load - total.tail) / steps,
        "tail_seconds": total.tail / steps,
        "tail_samples": window.tail_samples / steps,
        "load_seconds": total.load / steps,
        "reduce_seconds": total.reduce / steps,
        "wait_seconds": total.wait / steps,
        "step_seconds": total.step / steps,
        "loss": window.loss if window.loss is not None and math.isfinite(window.loss) else None,
    }


class Trace:
    """One JSON line for every committed round, if a file was asked for."""

    def __init__(self, file: Path | None, *, hashes: bool) -> None:
        self._hashes = hashes
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
        self._file = None if file is None else file.open("a", buffering=1, encoding="utf-8")

    def committed(self, round_: Committed, learner: Learner) -> None:
        """Write a round down."""
        if self._file is None:
            return
        lap, progress = round_.lap, round_.progress
        # Of a gradient, the parameters are nobody's but this worker's.
        values = learner.parameter_hash() if self._hashes and round_.server is None else ""
        line = {
            "round": progress.round, "step": progress.step, "kind": round_.kind.name.lower(), "epoch": progress.epoch,
            "time": time.time(), "generation": str(round_.group.id), "members": round_.group.names,
            "plan": round_.plan, "share": round_.share,
            "interval": next(iter(round_.interval.to_list()), [0, 0]), "mine": round_.held.to_list(),
            "samples": round_.samples, "loss": round_.loss if math.isfinite(round_.loss) else None,
            "seconds": asdict(lap),
            "disturbed": round_.disturbed, "hash": values,
        }  # fmt: skip
        if round_.server is not None:
            line |= {"kind": "gradient", "server": round_.server, "delay": round_.delay}
            line["kept"] = round_.kept.to_list()
        if round_.kind is Kind.STEP and (used := learner.used(round_.held)) is not None:
            line |= {"used": used, "size": progress.size}
        self._file.write(json.dumps(line) + "\n")

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
