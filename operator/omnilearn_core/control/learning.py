"""How `Affine` learns: reports and new CPU quotas become curves, ceilings and broken promises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log, sqrt
from typing import NamedTuple

from . import curve as curves
from .curve import Curve, Line
from .reports import Member, Report, Situation
from .tuning import Tuning

# How unlike its group a worker may be that has not been measured yet.
_STRANGE = 0.3


class Ceiling(NamedTuple):
    """A share above which a worker was slower than below it (memory, cache); tried again after ``until``."""

    share: int
    until: int


class Rest(NamedTuple):
    """A worker that gets nothing: the window in which to try it again, and how long to wait after that."""

    probe_at: int
    pause: int


@dataclass(frozen=True, slots=True)
class Knowledge:
    """The memory of `Affine`. ``jumps`` and ``retuned`` are the news of the newest window alone."""

    window: int = 0
    curves: dict[str, Curve] = field(default_factory=dict)
    fixed_scales: bool = True
    ceilings: dict[str, Ceiling] = field(default_factory=dict)
    rests: dict[str, Rest] = field(default_factory=dict)
    promised: float = 0.0  # step seconds that the plan in force promises
    broken: int = 0  # windows in a row in which that promise was broken
    fallback: int = 0  # windows left to split by throughput instead
    jumps: dict[str, float] = field(default_factory=dict)
    retuned: tuple[str, ...] = ()
    news: bool = False


def learn(known: Knowledge, heard: Sequence[Report], situation: Situation, tuning: Tuning) -> Knowledge:
    """Return what is known after the reports of one window."""
    lines = dict(known.curves)
    ceilings = {w: c for w, c in known.ceilings.items() if c.until > known.window}
    common = common_noise(lines.values(), tuning)
    jumps: dict[str, float] = {}
    for report in heard:
        old = lines.get(report.worker)
        if old is None:
            lines[report.worker] = curves.first(report.share, report.seconds, report.quota, tuning)
            continue
        noise = curves.sigma(old, common, tuning)
        if report.share > old.share and _is_cliff(old, report, noise, tuning):
            ceilings[report.worker] = Ceiling(old.share, known.window + tuning.ceiling_windows)
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
    """Tell whether a larger share made this worker slower per sample, which no line can explain."""
    speed_before, speed = curve.share / curve.line.at(curve.share), report.share / report.seconds
    return speed < speed_before * (1.0 - tuning.cliff - tuning.jump_sigmas * noise)


def _feed_forward(
    known: dict[str, Curve], members: Sequence[Member], fixed_scales: bool, tuning: Tuning
) -> tuple[str, ...]:
    """Scale the lines of members whose CPU quota has changed; return who they are."""
    changed = []
    for member in members:
        curve, quota = known.get(member.worker), member.quota
        if curve is None or quota is None or quota == curve.quota or quota <= 0:
            continue
        if curve.quota:
            line = curves.scaled(curve.line, curve.quota / quota, fixed_scales, tuning.quota_doubt)
            curve = curve._replace(line=line, creep=0.0, settled=0.0)
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


def guesses(known: Mapping[str, Line], members: Sequence[Member]) -> dict[str, Line]:
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


def _like(stranger: Member, others: Sequence[Member], known: Mapping[str, Line]) -> Line:
    """Return the mean line of ``others``, each scaled to the stranger's CPU quota where both are known."""
    lines = [
        curves.scaled(known[other.worker], other.quota / stranger.quota, fixed_scales=True, doubt=0.0)
        if stranger.quota and other.quota
        else known[other.worker]
        for other in others
    ]
    fixed = sum(line.fixed for line in lines) / len(lines)
    slope = sum(line.per_sample for line in lines) / len(lines)
    return curves.loosen(lines[0]._replace(fixed=fixed, per_sample=slope), _STRANGE, fixed_scales=True)
