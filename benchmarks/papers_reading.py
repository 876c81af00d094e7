"""What the traces and the models of a run tell; for `benchmarks.papers`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from .papers_plan import Outcome, Plan
from .papers_subjects import subject_of
from .papers_worker import fill


def read(plan: Plan, folder: Path, begun: float) -> Outcome:
    """Return what the traces and the models of a run tell."""
    end = begun + plan.seconds
    lines = [
        line | {"worker": file.stem.rpartition("-")[0]}
        for file in (folder / "jsonl").glob("*.jsonl")
        for line in whole_lines(file)
        if line["kind"] in ("step", "gradient") and line["time"] <= end
    ]
    gradients = [line for line in lines if line["kind"] == "gradient"]
    rounds = {line["round"]: line for line in lines}.values()  # a step is in everybody's trace
    counted = [line for line in gradients if line["samples"]] if gradients else list(rounds)
    delays = {
        name: (fmean(own), max(own))
        for name in plan.names
        if (own := [line["delay"] for line in gradients if line["worker"] == name and line["time"] > begun + 1.0])
    }
    return Outcome(
        curve=curve_of(plan, folder, begun),
        progress=_summed(sorted((line["time"] - begun, line["samples"]) for line in counted)),
        updates=max((line["step"] for line in lines), default=0),
        seconds=plan.seconds,
        step_seconds=pace_of([line["time"] for line in rounds if line["time"] > begun + plan.seconds / 2]),
        delays=delays,
        discarded=1.0 - len(counted) / len(gradients) if gradients else 0.0,
    )


def _summed(commits: Sequence[tuple[float, int]]) -> list[tuple[float, float]]:
    total = accumulate(count for _, count in commits)
    return [(moment, float(sum_)) for (moment, _), sum_ in zip(commits, total, strict=True)]


def whole_lines(file: Path) -> Iterable[dict[str, Any]]:
    """Return the lines of a file whose writer was killed: the last one may be short."""
    text = file.read_text(encoding="utf-8")
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def pace_of(times: Sequence[float]) -> float:
    """Return the mean time between two of these moments; not a number if there are fewer."""
    gaps = [after - before for before, after in pairwise(sorted(times))]
    return fmean(gaps) if gaps else float("nan")


def curve_of(plan: Plan, folder: Path, begun: float) -> list[tuple[float, float]]:
    """Return how good the models were that the leads have written down."""
    subject = subject_of(plan.subject)
    model, points = subject.network(), []
    size = sum(parameter.numel() for parameter in model.parameters())
    for file in (folder / "snapshots").glob("*.jsonl"):
        flats = torch.frombuffer(bytearray(file.with_suffix(".bin").read_bytes()), dtype=torch.float32)
        for place, line in enumerate(whole_lines(file)):
            if line["time"] <= begun + plan.seconds:
                fill(model, flats[place * size : (place + 1) * size])
                with torch.no_grad():
                    points.append((max(0.0, line["time"] - begun), subject.score(model)))
    return sorted(points)
