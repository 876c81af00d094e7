"""Train for real on unlike workers: python -m benchmarks.training [--quick] [--json FILE] [--plot FILE].

Four worker processes on this machine, each held to a CPU limit (cgroup, period 20 ms) and to one thread, train a
convolutional net of 229 thousand parameters (0.9 MB) on synthetic pictures. All figures are ratios of ways of training
that alternate within one run. The denominator of a level is the sum of the workers' own speeds while all of them are
busy, each training by itself.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from omnilearn_coordinator.view import JobView
from omnilearn_core.control.shares import apportion

from .fleet import Fleet, settings_for
from .layouts import CORES, LEVELS, SCHEDULE
from .training_views import draw, show

CPUS, MOST_CPUS = 1.6, 1.0
# Ways to train, as (law, percent of the batch that is left to whoever is early); None is the default.
WAYS: dict[str, tuple[str, int | None]] = {
    "Affine": ("Affine", None),
    "no tail": ("Affine", 0),
    "Uniform": ("Uniform", 0),
}


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured."""

    levels: Sequence[int]
    repeats: int
    steps: int
    skipped: int
    """Steps before the law has settled, not counted."""

    solo_seconds: float
    phase_steps: int
    pairs: int
    step_seconds: float = 1.0


FULL = Effort(LEVELS, repeats=2, steps=24, skipped=10, solo_seconds=6.0, phase_steps=10, pairs=10)
QUICK = Effort((8,), repeats=1, steps=14, skipped=8, solo_seconds=3.0, phase_steps=6, pairs=2)


def quotas(level: int) -> list[float]:
    """Return the CPUs of the four workers at a heterogeneity level, scaled to this machine."""
    cores = CORES[level]
    scale = min(CPUS / sum(cores), MOST_CPUS / max(cores))
    return [round(each * scale, 4) for each in cores]


def main() -> None:
    """Measure, print, and write down."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one level, few steps")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write a picture to FILE")
    parser.add_argument("--only", choices=("levels", "schedule", "alike"), help="one part only")
    options = parser.parse_args()
    began = time.monotonic()
    results = measure(QUICK if options.quick else FULL, options.only)
    show(results)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(results, indent=1) + "\n")
        print(f"figures: {options.json}")
    if options.plot:
        draw(results, options.plot)
        print(f"picture: {options.plot}")
    print(f"took {time.monotonic() - began:.0f} s")


def measure(effort: Effort, only: str | None = None) -> dict[str, Any]:
    """Return all figures as plain data."""
    results: dict[str, Any] = {}
    with Fleet(4) as fleet:
        fleet.limit(quotas(1))
        speed = sum(fleet.solo([256] * 4, effort.solo_seconds, together=True))
        batch = max(64, round(speed * effort.step_seconds / 64) * 64)
        _progress(f"{speed:.0f} samples/s together: a global batch of {batch} takes about {effort.step_seconds:g} s")
        results["batch"] = batch
        if only in (None, "levels"):
            results["levels"] = [level(fleet, each, batch, effort) for each in effort.levels]
        if only in (None, "schedule"):
            results["schedule"] = schedule(fleet, batch, effort)
        if only in (None, "alike"):
            results["alike"] = alike(fleet, batch, effort)
    return results


def level(fleet: Fleet, number: int, batch: int, effort: Effort) -> dict[str, Any]:
    """Measure one heterogeneity level: everybody alone, all busy, and together in four ways, again and again."""
    cpus = quotas(number)
    fleet.limit(cpus)
    shares = apportion(batch, cpus, [(1, batch)] * len(cpus))
    alone = fleet.solo(shares, effort.solo_seconds / 2, together=False)
    rounds: list[dict[str, float]] = []
    for _ in range(effort.repeats):
        busy = sum(fleet.solo(shares, effort.solo_seconds, together=True))
        figures = {"busy": busy}
        for name, way in WAYS.items():
            count = effort.steps if name != "Uniform" else effort.skipped // 4 + 5
            times, traces = fleet.joint(settings_for(fleet.names, way, batch), count)
            skipped = effort.skipped if name != "Uniform" else effort.skipped // 4
            figures[name] = _speed(times, batch, skipped) / busy
            figures[f"{name} computes"] = _computing(traces, skipped)
        figures["DDP"] = _speed(fleet.ddp(batch, effort.skipped // 4 + 5), batch, effort.skipped // 4) / busy
        busy_after = sum(fleet.solo(shares, effort.solo_seconds / 2, together=True))
        # The machine's own speed drifts: the mean of before and after is what the ways between had.
        drift = 2.0 * busy / (busy + busy_after)
        figures |= {name: figures[name] * drift for name in (*WAYS, "DDP")}
        figures["busy after"] = busy_after
        rounds.append(figures)
        _progress(f"HL{number}: " + ", ".join(f"{name} {figures[name]:.3f}" for name in (*WAYS, "DDP")))
    ratios = {name: median(each[name] for each in rounds) for name in (*WAYS, "DDP")}
    return {"level": number, "cpus": cpus, "alone": alone, "rounds": rounds, "ratios": ratios}


def schedule(fleet: Fleet, batch: int, effort: Effort) -> dict[str, Any]:
    """Change the level while a job runs, HL1-2-4-8-8-4-2-1, each phase equally many steps; Affine over Uniform."""
    phases = [quotas(each) for each in SCHEDULE]
    steps = effort.phase_steps * len(phases)
    found: dict[str, Any] = {}
    for name, way in WAYS.items():
        at = -1

        def follow(view: JobView) -> None:
            nonlocal at
            phase = min(view.step // effort.phase_steps, len(phases) - 1)
            if phase != at:
                at = phase
                fleet.limit(phases[phase])

        fleet.limit(phases[0])
        times, _ = fleet.joint(settings_for(fleet.names, way, batch), steps, follow)
        found[name] = {"seconds": times[-1] - times[0], "times": [each - times[0] for each in times]}
        _progress(f"schedule: {name} {found[name]['seconds']:.0f} s")
    found["gain"] = found["Uniform"]["seconds"] / found["Affine"]["seconds"]
    found["gain without a tail"] = found["Uniform"]["seconds"] / found["no tail"]["seconds"]
    return found


def alike(fleet: Fleet, batch: int, effort: Effort) -> dict[str, Any]:
    """Compare with DistributedDataParallel where there is nothing to balance: ABAB, with an interval."""
    fleet.limit(quotas(1))
    ratios = []
    for pair in range(effort.pairs):
        ours = _speed(fleet.joint(settings_for(fleet.names, WAYS["Affine"], batch), 16)[0], batch, 6)
        theirs = _speed(fleet.ddp(batch, 13), batch, 3)
        ratios.append(ours / theirs)
        _progress(f"alike {pair + 1}: {ratios[-1]:.3f} of DDP")
    margin = 2.0 * stdev(ratios) / len(ratios) ** 0.5 if len(ratios) > 1 else float("nan")
    return {"ratios": ratios, "mean": fmean(ratios), "median": median(ratios), "margin": margin}


def _speed(times: Sequence[float], batch: int, skipped: int) -> float:
    counted = times[skipped:]
    return batch * (len(counted) - 1) / (counted[-1] - counted[0])


def _computing(traces: Sequence[Path], skipped: int) -> float:
    """Return the part of the members' time in which they computed: what is left is reducing and waiting."""
    laps = [json.loads(line)["seconds"] for trace in traces for line in trace.read_text().splitlines()[skipped:-1]]
    return float(sum(lap["compute"] + lap["load"] for lap in laps) / sum(lap["step"] for lap in laps))


def _progress(words: str) -> None:
    print(f"… {words}", flush=True)


if __name__ == "__main__":
    main()
