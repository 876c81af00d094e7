"""The papers' claims on this machine: python -m benchmarks.papers [--quick] [--only CLAIM] [--json FILE] [--plot FILE].

Real workers of the real runtime with a real coordinator, whose speeds are paced (`papers_worker`): a worker computes
its gradients and then sleeps until a worker of its speed would have them. Every way of a claim has the same seconds and
the same seeds; the models are looked at afterwards. Each claim is written to FILE as soon as it is there, so that they
can be measured one by one: `--only` and `--case` leave the others in FILE as they are. The pictures are named after
FILE and the claim.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from .papers_claims import CLAIMS, TUNING, Claim
from .papers_figures import FIGURES
from .papers_plan import Outcome, Plan
from .papers_runs import Bench
from .papers_subjects import subject_of
from .papers_views import Rows, draw, goal_of, table_of
from .printing import console, options_of

_SEEDS, _TUNING_SEEDS = (0, 1, 2), (100,)
_QUICK_SECONDS = 2.0


def main() -> None:
    """Measure, print, and write down."""
    parser = options_of("papers", (__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=[*CLAIMS, "rates"], action="append", help="only this claim; may be repeated")
    parser.add_argument("--case", action="append", help="only this situation of them; may be repeated")
    parser.add_argument("--show", action="store_true", help="measure nothing: show what is in the file of --json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    began = time.monotonic()
    chosen = {name: claim for name, claim in {**CLAIMS, "rates": TUNING}.items() if name in (options.only or CLAIMS)}
    kept = _read(options.json)
    if not options.show:
        asyncio.run(measure(chosen, options, kept))
    for name, claim in chosen.items():
        if name in kept:
            console().print(table_of(claim, kept[name]))
            if options.plot:
                draw(claim, kept[name], options.plot.with_stem(f"{options.plot.stem}-{name}"))
    print(f"took {time.monotonic() - began:.0f} s; pictures are {subject_of('pictures').name}")


async def measure(claims: dict[str, Claim], options: argparse.Namespace, kept: dict[str, Rows]) -> None:
    """Measure some claims, one situation after the other, and keep each as soon as it is there."""
    async with Bench() as bench:
        for name, claim in claims.items():
            seeds = _TUNING_SEEDS if claim is TUNING else _SEEDS[:1] if options.quick else _SEEDS
            for case in dict.fromkeys(case for case, _ in claim.runs()):
                if options.case and case not in options.case:
                    continue
                known = {(row["case"], row["way"]): row for row in kept.get(name, [])}
                found = await rows_of(bench, claim, case, seeds, quick=options.quick)
                known |= {(row["case"], row["way"]): row for row in found}
                kept[name] = [known[each] for each in claim.runs() if each in known]
                _write(options.json, kept)


async def rows_of(bench: Bench, claim: Claim, case: str, seeds: Sequence[int], *, quick: bool) -> Rows:
    """Run all ways of a situation in turn, so that a noisy minute of the machine meets all of them."""
    plans = {each: plan for each, plan in claim.runs().items() if each[0] == case}
    found: dict[tuple[str, str], list[Outcome]] = {each: [] for each in plans}
    for seed in seeds:
        for each, plan in plans.items():
            plan_now = replace(plan, seed=seed, seconds=_QUICK_SECONDS if quick else plan.seconds)
            outcome = await (bench.run(plan_now, tries=1) if quick else bench.run(plan_now))
            found[each].append(outcome)
            last = outcome.curve[-1][1] if outcome.curve else math.nan
            words = f"{last:.3f}, {outcome.samples:.0f} samples, cores idle {outcome.idle:.0%}"
            print(f"… {case}, {each[1]}, seed {seed}: {words}", file=sys.stderr, flush=True)
    return [_row(claim, each, plan, found[each]) for each, plan in plans.items()]


def _row(claim: Claim, where: tuple[str, str], plan: Plan, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    goal = goal_of(claim, plan.subject)
    return {
        "case": where[0],
        "way": where[1],
        "subject": plan.subject,
        "seconds": outcomes[0].seconds,
        "figures": {name: [figure(run, goal) for run in outcomes] for name, figure in FIGURES.items()},
        "idle": [run.idle for run in outcomes],
        "curves": [run.curve for run in outcomes],
    }


def _write(file: Path | None, kept: dict[str, Rows]) -> None:
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(kept) + "\n", encoding="utf-8")


def _read(file: Path | None) -> dict[str, Rows]:
    """Return what was measured before."""
    if file is None or not file.exists():
        return {}
    found: dict[str, Rows] = json.loads(file.read_text(encoding="utf-8"))
    return found


if __name__ == "__main__":
    main()
