"""What a run leaves: report.json, steps.jsonl, events.jsonl (written as it happens) and shares.png."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from omnilearn_core.api.base import ApiModel
from omnilearn_core.api.strategy import Choice

from . import figures, traces, uses
from .audit import Audit, audit
from .ending import End, State
from .events import Event
from .traces import Round
from .view import DoneFacts, View


class MemberReport(ApiModel):
    """A worker: its last share, its speed while computing, and where its time went."""

    worker: str
    device: str
    share: int
    samples_per_second: float
    compute_fraction: float
    load_fraction: float
    reduce_fraction: float
    wait_fraction: float
    staleness: float | None = None
    """Mean delay of its gradients that a server applied, in updates since their parameters were handed out."""

    max_staleness: int | None = None
    """The largest of these delays."""


class Ledger(ApiModel):
    """What the members say at their end of lost and doubled samples; they must agree."""

    lost: int
    doubled: int
    agree: bool


class AuditReport(ApiModel):
    """The same, counted from the workers' traces."""

    rounds: int
    samples: int
    lost: int
    doubled: int
    outside: int
    unseen: int
    missing_rounds: int
    superseded: int
    unreadable_lines: int
    findings: list[str]


class EventReport(ApiModel):
    """One event."""

    time: float
    seconds: float
    kind: str
    sentence: str
    worker: str


class RunReport(ApiModel):
    """A run, in figures."""

    job: str
    state: State
    why: str
    steps: int
    samples: int
    seconds: float
    samples_per_second: float
    uniform_seconds: float
    """What computing would have taken with equal shares, each step as long as its slowest member."""

    compute_seconds: float
    """What it took with the shares that were, by the same measure."""

    strategy: Choice | None
    """What Auto has chosen, if it has."""

    members: list[MemberReport]
    generations: int
    regroups: int
    plan_changes: int
    restarts: int
    failures: int
    preemptions: int
    ledger: Ledger | None
    audit: AuditReport
    parameter_hash: dict[str, str]
    logged: dict[str, float]
    loss: float | None
    sample_uses: dict[int, int] | None = None
    """How many samples were used how often, where that is not once in each pass; of each, samples.csv says it."""

    events: list[EventReport]


class Counts(ApiModel):
    """What the launcher has counted."""

    restarts: int = 0
    failures: int = 0
    preemptions: int = 0


def read_rounds(output: Path) -> tuple[list[Round], int]:
    """Return the rounds that the workers have written down, and how many lines could not be read."""
    lines, unreadable = traces.read_traces(output / "workers")
    return traces.merge(lines), unreadable


def report_of(
    job: str, end: End, view: View, told: tuple[Sequence[Round], int], events: Sequence[Event], counts: Counts
) -> RunReport:
    """Return the report of a run: from the traces where they are there, else from what the coordinator saw."""
    rounds, unreadable = told
    steps = figures.training(rounds)
    samples = sum(one.samples for one in steps) or view.samples
    seconds, used = figures.elapsed(steps), uses.uses_of(steps)
    return RunReport(
        job=job,
        state=end.state,
        why=end.why,
        steps=max(view.step, steps[-1].any.step if steps else 0),
        samples=samples,
        seconds=seconds,
        samples_per_second=samples / seconds if seconds > 0 else 0.0,
        # Where nobody waits for anybody, there is no slowest one of a step.
        uniform_seconds=figures.uniform_seconds([one for one in steps if one.any.kind == "step"]),
        compute_seconds=figures.compute_seconds([one for one in steps if one.any.kind == "step"]),
        strategy=view.choice,
        members=_members(view, figures.member_figures(steps)),
        generations=figures.generations(rounds),
        regroups=view.regroups,
        plan_changes=figures.plan_changes(steps),
        restarts=counts.restarts,
        failures=counts.failures,
        preemptions=counts.preemptions,
        ledger=_ledger(view.done),
        audit=_audit(audit(rounds), unreadable),
        parameter_hash={worker: facts.parameter_hash for worker, facts in sorted(view.done.items())},
        logged=dict(view.logged),
        loss=view.loss,
        sample_uses=None if used is None else uses.by_number(used),
        events=[EventReport(**asdict(event)) for event in events],
    )


def _members(view: View, measured: Mapping[str, figures.MemberFigures]) -> list[MemberReport]:
    nothing = figures.MemberFigures(0.0, 0.0, 0.0, 0.0, 0.0)
    found = []
    for member in view.members:
        own = measured.get(member.worker, nothing)
        found.append(
            MemberReport(
                worker=member.worker,
                device=member.device,
                share=member.share,
                samples_per_second=own.samples_per_second,
                compute_fraction=own.compute,
                load_fraction=own.load,
                reduce_fraction=own.reduce,
                wait_fraction=own.wait,
                staleness=own.staleness,
                max_staleness=own.max_staleness,
            )
        )
    return found


def _ledger(done: Mapping[str, DoneFacts]) -> Ledger | None:
    if not done:
        return None
    told = {(facts.steps, facts.samples, facts.lost, facts.doubled) for facts in done.values()}
    return Ledger(
        lost=max(facts.lost for facts in done.values()),
        doubled=max(facts.doubled for facts in done.values()),
        agree=len(told) == 1,
    )


def _audit(found: Audit, unreadable: int) -> AuditReport:
    return AuditReport(**{**asdict(found), "findings": list(found.findings)}, unreadable_lines=unreadable)


def write_report(report: RunReport, path: Path) -> None:
    """Write report.json, whole or not at all."""
    text = json.dumps(report.model_dump(mode="json", by_alias=True), indent=1, ensure_ascii=False)
    new = path.with_suffix(".new")
    new.write_text(text + "\n", encoding="utf-8")
    new.replace(path)
