"""The contestants, and what is measured of each in one cell."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from statistics import fmean, median
from typing import Any

from omnilearn_core.control.law import decide
from omnilearn_core.control.laws import LAWS
from omnilearn_core.control.reports import Member, Report, Situation
from omnilearn_core.control.shares import balance, makespan
from omnilearn_core.simulate.cluster import Scenario
from omnilearn_core.simulate.run import Controller, LawController, Oracle, Trace, simulate

from .grid import Cell
from .layouts import SCHEDULE, Case, phases, scenario
from .rules import Printed, Released

STEADY_WINDOWS = 60
STEADY_FROM = 20
PHASE_WINDOWS = 10
SETTLED_WINDOWS = 20
TOLD = " (told quotas)"


def _law(name: str) -> Callable[[], Controller]:
    return lambda: LawController(LAWS[name])


# Who is told the CPU quotas: Static needs them; Affine with them shows what feed-forward adds.
ARMS: dict[str, Callable[[], Controller]] = {
    "Uniform": _law("Uniform"),
    f"Static{TOLD}": _law("Static"),
    "PerEpoch": _law("PerEpoch"),
    "Printed": Printed,
    "Released": Released,
    "Proportional": _law("Proportional"),
    "Affine": _law("Affine"),
    f"Affine{TOLD}": _law("Affine"),
    "Oracle": Oracle,
}


def steady(cell: Cell) -> dict[str, Any]:
    """Return each arm's step time over the oracle's, in the steady state and over the whole run."""
    figures: dict[str, Any] = {}
    for name in ARMS:
        traces = _runs(name, cell, lambda case: scenario(case, STEADY_WINDOWS))
        figures[name] = {
            "steady": fmean(_ratio(trace, STEADY_FROM) for trace in traces),
            "run": fmean(_ratio(trace, 0) for trace in traces),
            "changes": fmean(trace.changes for trace in traces),
            "batch": fmean(_batch(trace) for trace in traces),
        }
    return _labelled(cell, figures)


def change(cell: Cell) -> dict[str, Any]:
    """Return each arm's ratio to the oracle in the windows after a change of level, averaged over seeds."""
    levels = (cell.level, cell.to_level)
    figures: dict[str, Any] = {}
    for name in ARMS:
        traces = _runs(name, cell, lambda case: phases(case, levels, SETTLED_WINDOWS))
        after = range(SETTLED_WINDOWS, 2 * SETTLED_WINDOWS)
        figures[name] = [
            fmean(t.windows[w].expected_seconds / t.windows[w].oracle_seconds for t in traces) for w in after
        ]
    return _labelled(cell, figures)


def schedule(cell: Cell) -> dict[str, Any]:
    """Return how much faster than uniform each arm goes through the schedule, and the two bounds."""
    uniform = _expected(_runs("Uniform", cell, _schedule))
    figures = {name: uniform / _expected(_runs(name, cell, _schedule)) for name in ARMS}
    figures["One window late"] = uniform / _one_window_late(cell)
    return _labelled(cell, figures)


def decision_time(workers: int) -> dict[str, Any]:
    """Return the milliseconds of an Affine decision that has all reports to digest."""
    rng = random.Random(workers)
    members = tuple(Member(f"w{k}", f"g{k % 4}") for k in range(workers))
    speeds = [rng.uniform(10.0, 100.0) for _ in members]
    law, batch = LAWS["Affine"], 32 * workers
    decision = decide(law, None, Situation(batch, members, 0.0))
    took: list[float] = []
    for now in range(1, 101):
        reports = tuple(
            Report(m.worker, share, (5.0 + share) / speed * rng.uniform(0.95, 1.05), float(now))
            for m, speed in zip(members, speeds, strict=True)
            if (share := decision.shares[m.worker])
        )
        situation = Situation(batch, members, float(now), reports)
        began = time.perf_counter()
        decision = decide(law, decision.state, situation)
        took.append(1000.0 * (time.perf_counter() - began))
    return {"workers": workers, "median": median(took), "best": min(took), "worst": max(took)}


def _runs(name: str, cell: Cell, build: Callable[[Case], Scenario]) -> list[Trace]:
    cases = [
        Case(cell.level, cell.workers, cell.fixed_share, cell.fixed_scales, cell.noise, seed, TOLD in name)
        for seed in range(cell.seeds)
    ]
    return [simulate(build(case), ARMS[name]()) for case in cases]


def _schedule(case: Case) -> Scenario:
    return phases(case, SCHEDULE, PHASE_WINDOWS)


def _ratio(trace: Trace, first: int) -> float:
    windows = trace.windows[first:]
    return sum(w.expected_seconds for w in windows) / sum(w.oracle_seconds for w in windows)


def _batch(trace: Trace) -> float:
    """Return the samples of a step over the global batch that was asked for."""
    windows = trace.windows[STEADY_FROM:]
    return fmean(sum(window.shares.values()) for window in windows) / trace.scenario.global_batch


def _expected(traces: Sequence[Trace]) -> float:
    return fmean(sum(w.expected_seconds * w.steps for w in trace.windows) for trace in traces)


def _one_window_late(cell: Cell) -> float:
    """Return the time of a law that knows the true speeds, but only from the reports of the first window."""
    total, split = 0.0, None
    for level in SCHEDULE:
        case = Case(level, cell.workers, cell.fixed_share, cell.fixed_scales)
        run = scenario(case, 1)
        truth = [worker.slot(run.global_batch) for worker in run.workers]
        best = balance(run.global_batch, truth)
        total += makespan(split or best, truth) + (PHASE_WINDOWS - 1) * makespan(best, truth)
        split = best
    return total


def _labelled(cell: Cell, figures: dict[str, Any]) -> dict[str, Any]:
    return {**cell._asdict(), "arms": figures}
