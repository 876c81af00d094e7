"""What must be true after all faults: the ledgers, the traces, and who ended and why. Pure, but for reading traces."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from chaos.verdict import Traces
from omnilearn_cli.local.traces import Round, merge, read_traces

from .consequences import FAILED, OUT_OF_MEMORY, PREEMPTED, Strike
from .driver import Run
from .manifests import EPOCH_SAMPLES
from .plan import WORKERS, Kind
from .seen import Pod

_AFTERWARDS_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Recovery:
    """How a fault looked to those who trained on, in seconds, from what they wrote down."""

    strike: int
    kind: str
    to_commit: float | None
    """From the fault to the first commit of a newer generation, if there had to be one."""

    stall: float
    """The longest time around the fault in which nothing was committed."""


def last_words(pods: Sequence[Pod]) -> list[dict[str, object]]:
    """Return what those left who came to the end of the job."""
    return [json.loads(pod.message) for pod in pods if pod.code == 0 and pod.message.startswith("{")]


def complaints(run: Run) -> Iterator[str]:
    """Yield what is wrong with a run, by what the API server shows."""
    words = last_words(run.last.pods)
    if len(words) != WORKERS:
        yield f"{len(words)} workers came to the end of the job, not {WORKERS}"
    expected = (0, 0, EPOCH_SAMPLES * run.epochs)
    for each in words:
        if (each["lost"], each["doubled"], each["samples"]) != expected:
            yield f"the ledger of a worker says {each}, not {expected}"
    if len({each["parameterHash"] for each in words}) != 1:
        yield "the workers ended with different parameters"
    if run.restarted:
        yield f"containers were started again: {sorted(run.restarted)}"
    yield from (f"ended though nothing was done to it: {why}" for why in run.strays.values())
    if run.last.failures or run.last.tellings(FAILED):
        yield f"{run.last.failures} failures were counted"
    yield from untold(run)


def untold(run: Run) -> Iterator[str]:
    """Yield what was done and is in no event of the job: each fault, and each worker's ends by their number."""
    for strike in run.strikes:
        if strike.awaited:
            yield f"#{strike.number} {strike.fault}: {', '.join(strike.awaited)} was not seen"
    ends = Counter(
        pod.worker
        for strike in run.strikes
        if strike.loses
        for pod in strike.victims
        if strike.fault.kind is not Kind.CUT
    )
    for worker, count in sorted(ends.items()):
        # That its connection closed is told as well, and is not what is asked for here.
        told = run.last.tellings(PREEMPTED, OUT_OF_MEMORY, about=worker)
        if told < count:
            yield f"{worker} was ended {count} times, and events tell of {told}"


def contradictions(folder: Path) -> Iterator[str]:
    """Yield what is wrong with what the workers wrote down."""
    traces = Traces.read(folder)
    audit = traces.audit()
    if not audit.clean or audit.missing_rounds:
        yield f"the traces say: {audit}"
    yield from traces.disagreements()
    yield from traces.strays()


def recoveries(folder: Path, strikes: Sequence[Strike]) -> list[Recovery]:
    """Return how long the others stood still, fault by fault."""
    rounds = merge(read_traces(folder)[0])
    return [_recovery(rounds, strike) for strike in strikes]


def _recovery(rounds: Sequence[Round], strike: Strike) -> Recovery:
    before = [one for one in rounds if one.time <= strike.wall]
    after = [one for one in rounds if one.time > strike.wall]
    last = _number(before[-1]) if before else 0
    newer = next((one for one in after if _number(one) > last), None) if strike.loses else None
    until = strike.wall + _AFTERWARDS_SECONDS if newer is None else newer.time
    times = [one.time for one in before[-1:]] + [one.time for one in after if one.time <= until]
    stall = max((late - early for early, late in pairwise(times)), default=0.0)
    to_commit = None if newer is None else round(newer.time - strike.wall, 3)
    return Recovery(strike.number, str(strike.fault.kind), to_commit, round(stall, 3))


def _number(one: Round) -> int:
    return int(one.generation.partition(".")[0])
