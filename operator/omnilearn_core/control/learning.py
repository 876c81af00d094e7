"""How `Affine` learns: reports and new CPU quotas become curves, ceilings and broken promises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log, sqrt
from typing import NamedTuple

from . import curve as curves
from .bounded import Amount, Count, Positive, Windows
from .ceilings import Ceiling, standing
from .curve import Curve, Line, Numbers
from .reports import FEWEST_CPUS, MOST_CPUS, Member, Report, Situation
from .tuning import Tuning

# A tenth of a percent: readings are never more exact than that.
_LEAST_NOISE_VARIANCE = 1e-6

# How unlike its group a worker may be that has not been measured yet.
_STRANGE = 0.3


class Rest(NamedTuple):
    """A worker that gets nothing: the window in which to try it again, and how long to wait after that."""

    probe_at: Count
    pause: Windows


@dataclass(frozen=True, slots=True)
class Knowledge:
    """The memory of `Affine`. ``jumps`` and ``retuned`` are the news of the newest window alone."""

    window: Count = 0
    curves: dict[str, Curve] = field(default_factory=dict)
    fixed_scales: bool = True
    ceilings: dict[str, Ceiling] = field(default_factory=dict)
    rests: dict[str, Rest] = field(default_factory=dict)
    promised: Amount = 0.0  # step seconds that the plan in force promises
    broken: Count = 0  # windows in a row in which that promise was broken
    fallback: Count = 0  # windows left to split by throughput instead
    jumps: dict[str, Positive] = field(default_factory=dict)
    retuned: tuple[str, ...] = ()
    news: bool = False


def learn(known: Knowledge, heard: Sequence[Report], situation: Situation, tuning: Tuning) -> Knowledge:
    """Return what is known after the reports of one window."""
    lines = dict(known.curves)
    before = max((lines[r.worker].seconds for r in heard if r.worker in lines), default=0.0)
    step = max((r.seconds for r in heard), default=0.0)
    ceilings = standing(known.ceilings, known.window, step)
    common = common_noise(lines.values(), tuning)
    weight = tuning.first_noise_windows
    jumps: dict[str, float] = {}
    for report in heard:
        old = lines.get(report.worker)
        if old is None:
            lines[report.worker] = curves.first(report.share, report.seconds, report.quota, tuning)
            continue
        # A worker's own noise, leaning on everybody's at first
        noise = max((old.noise_sum + weight * common) / (old.noise_windows + weight), _LEAST_NOISE_VARIANCE)
        # Only a larger share that made the step longer was a mistake
        worse = report.seconds > before and report.worker not in ceilings
        if worse and _is_cliff(old, report, sqrt(noise), tuning):
            ceilings[report.worker] = Ceiling(old.share, known.window + tuning.ceiling_windows, step)
            continue
        new, jump = curves.observe(old, report.share, report.seconds, noise, known.fixed_scales, tuning)
        lines[report.worker] = new
        if jump is not None:
            jumps[report.worker] = jump
            ceilings.pop(report.worker, None)  # slow below the ceiling too: it was not the share
    retuned = _feed_forward(lines, situation.members, known.fixed_scales, tuning)
    broken, fallback = _promises(known, heard, sqrt(common), tuning)
    return replace(
        known,
        window=known.window + bool(heard),
        curves=_newest(lines, situation.members, tuning.curves_most),
        ceilings=ceilings,
        broken=broken,
        fallback=fallback,
        jumps=jumps,
        retuned=retuned,
        news=bool(heard or retuned),
    )


def common_noise(lines: Iterable[Curve], tuning: Tuning) -> float:
    """Return the variance of a window's relative noise over all workers, leaning on the first guess."""
    total = tuning.first_noise_windows * tuning.first_noise**2
    windows = tuning.first_noise_windows
    for line in lines:
        total += line.noise_sum
        windows += line.noise_windows
    return total / windows


def _is_cliff(curve: Curve, report: Report, noise: float, tuning: Tuning) -> bool:
    """Tell whether a larger share made this worker slower per sample, which no line can explain.

    Measured against its last reading: near a cliff the line is a compromise between both sides.
    """
    speed_before, speed = curve.share / curve.seconds, report.share / report.seconds
    fell = speed < speed_before * (1.0 - tuning.cliff - tuning.jump_sigmas * noise)
    return fell and report.share > curve.share


def _feed_forward(
    known: dict[str, Curve], members: Sequence[Member], fixed_scales: bool, tuning: Tuning
) -> tuple[str, ...]:
    """Scale the lines of members whose CPU quota has changed; return who they are."""
    changed = []
    for member in members:
        quota = member.quota
        if quota is None or not FEWEST_CPUS <= quota <= MOST_CPUS:
            continue
        curve = known.get(member.worker)
        if curve is None or curve.quota == quota:
            continue
        if curve.quota:
            line = curves.scaled(curve.line, curve.quota / quota, fixed_scales, tuning.quota_doubt)
            curve = curve._replace(line=Line(*line), creep=0.0, settled=0.0)
            changed.append(member.worker)
        known[member.worker] = curve._replace(quota=quota)
    return tuple(changed)


def _promises(known: Knowledge, heard: Sequence[Report], noise: float, tuning: Tuning) -> tuple[int, int]:
    """Count windows that were slower than the plan promised; too many in a row end the trust in lines.

    Returns the windows in a row so far, and for how many more to fall back.
    """
    left = max(known.fallback - bool(heard), 0)
    if not heard or known.promised <= 0.0 or left:
        return known.broken, left
    slowest = max(report.seconds for report in heard)
    # The slowest of many is late by chance alone: the more there are, the more.
    chance = noise * (tuning.jump_sigmas + sqrt(2.0 * log(len(heard))))
    broke = slowest > known.promised * (1.0 + tuning.promise + chance)
    broken = known.broken + 1 if broke else 0
    return (broken, 0) if broken < tuning.promise_windows else (0, tuning.fallback_windows)


def _newest(lines: dict[str, Curve], members: Sequence[Member], most: int) -> dict[str, Curve]:
    """Forget the workers that left longest ago when there are too many to remember."""
    if len(lines) <= most:
        return lines
    present = {member.worker for member in members}
    gone = [worker for worker in lines if worker not in present]
    surplus = set(gone[: len(lines) - most])
    return {worker: line for worker, line in lines.items() if worker not in surplus}


def guesses(known: Mapping[str, Numbers], members: Sequence[Member]) -> dict[str, Numbers]:
    """Return a line for every member without one: like its group, else its device class, else anybody.

    At least one member must be known.
    """
    if len(known) == len(members):
        return {}
    strangers = [member for member in members if member.worker not in known]
    acquainted = [member for member in members if member.worker in known]
    return {stranger.worker: _like(stranger, _alike(stranger, acquainted), known) for stranger in strangers}


def _alike(stranger: Member, acquainted: Sequence[Member]) -> Sequence[Member]:
    group = [m for m in acquainted if m.group == stranger.group]
    device = [m for m in acquainted if m.device == stranger.device]
    return group or device or acquainted


def _like(stranger: Member, others: Sequence[Member], known: Mapping[str, Numbers]) -> Numbers:
    """Return the mean line of ``others``, each scaled to the stranger's CPU quota where both are known."""
    lines = [
        curves.scaled(known[other.worker], other.quota / stranger.quota, fixed_scales=True, doubt=0.0)
        if stranger.quota and other.quota
        else known[other.worker]
        for other in others
    ]
    fixed = sum(line[0] for line in lines) / len(lines)
    slope = sum(line[1] for line in lines) / len(lines)
    return curves.loosen((fixed, slope, *lines[0][2:]), _STRANGE, fixed_scales=True)
