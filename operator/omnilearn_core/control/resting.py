"""Workers that cost more than they bring: they get nothing, and are tried again from time to time.

Only where the bounds allow a share of zero. A worker whose fixed cost alone exceeds the others' step time makes
every step longer by taking part at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .learning import Knowledge, Rest
from .reports import Situation
from .shares import Slot, balance, makespan
from .tuning import Tuning
from .words import listing, short


class Rested(NamedTuple):
    """A split, who rests under it, and what to say if somebody has begun to rest, woken or is being tried."""

    shares: list[int]
    rests: dict[str, Rest]
    news: str


def split(known: Knowledge, situation: Situation, slots: Sequence[Slot], tuning: Tuning) -> Rested:
    """Return the best split, with everybody at work who is worth it."""
    workers = [member.worker for member in situation.members]
    if all(slot.minimum > 0 for slot in slots):
        return Rested(balance(situation.global_batch, slots), {}, "")
    may_rest = [worker for worker, slot in zip(workers, slots, strict=True) if not slot.minimum]
    rests = {worker: known.rests[worker] for worker in may_rest if worker in known.rests}
    probe = next((w for w, rest in rests.items() if rest.probe_at <= known.window), None)
    if probe is not None and sum(slot.minimum for slot in slots) < situation.global_batch:
        return _probe(probe, rests, known.window, situation, slots, tuning)
    free = balance(situation.global_batch, slots)
    awake = [worker for worker, share in zip(workers, free, strict=True) if share and worker in rests]
    for worker in awake:
        del rests[worker]
    at_work = _at_work(slots, workers, rests, situation.global_batch)
    held = balance(situation.global_batch, at_work)
    gains = makespan(free, slots) < (1.0 - tuning.rest_gain) * makespan(held, slots)
    tired = [
        worker
        for worker, share in zip(workers, free, strict=True)
        if not share and worker not in rests and _is_settled(known, worker, tuning)
    ]
    if gains and tired:
        pause = tuning.probe_windows
        rests |= {worker: Rest(known.window + pause, pause) for worker in tired}
        return Rested(free, rests, f"{listing(tired)} would cost more than it brings")
    return Rested(held, rests, f"{listing(awake)} is worth its cost again" if awake else "")


def _probe(
    worker: str,
    rests: dict[str, Rest],
    window: int,
    situation: Situation,
    slots: Sequence[Slot],
    tuning: Tuning,
) -> Rested:
    pause = min(2 * rests[worker].pause, tuning.probe_windows_most)
    rests[worker] = Rest(window + pause, pause)
    tried = [
        slot._replace(minimum=1) if member.worker == worker and slot.maximum else slot
        for member, slot in zip(situation.members, slots, strict=True)
    ]
    return Rested(balance(situation.global_batch, tried), rests, f"{short(worker)} is tried again")


def _at_work(slots: Sequence[Slot], workers: Sequence[str], rests: dict[str, Rest], total: int) -> list[Slot]:
    """Give everybody who does not rest at least one sample, if there are enough."""
    busy = [
        slot._replace(minimum=max(slot.minimum, min(1, slot.maximum)))
        if worker not in rests
        else slot._replace(maximum=0)
        for slot, worker in zip(slots, workers, strict=True)
    ]
    possible = sum(slot.minimum for slot in busy) <= total <= sum(slot.maximum for slot in busy)
    return busy if possible else list(slots)


def _is_settled(known: Knowledge, worker: str, tuning: Tuning) -> bool:
    line = known.curves.get(worker)
    return line is not None and line.settled >= tuning.rest_after
