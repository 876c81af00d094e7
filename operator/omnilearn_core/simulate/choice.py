"""Which strategy is worth it: what `strategy: {type: Auto}` decides by, and what `omnilearn simulate` says of it. Pure.

Only Synchronous has the result of one process. So it is left only for a clear gain, and then for whatever drifts least
of all that are about as fast as the fastest. Asynchronous is not among them: its learning rate is one for a share, not
for the global batch that a job is written for, and it sends more than local steps do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from .strategies import Estimate, Question, balanced, hierarchical, local_sgd, synchronous

# What the model cannot see (a sample of a local step is worth somewhat less, measured speeds are off by some percent)
# must not decide alone.
LEAST_GAIN = 1.25

# Of those that are so near to the fastest, the one that merges most often.
NEAR_BEST = 0.9

# Steps between two merges that are tried. Groups in step merge early enough for DASO's own limit.
_GROUP_INTERVALS = (4, 8)
_LOCAL_INTERVALS = (2, 4, 8, 16, 32, 64)

# Who joins or leaves waits for a merge: not longer than this, unless two steps take longer.
_LONGEST_ROUND_SECONDS = 120.0


class Chosen(NamedTuple):
    """A strategy, the steps between two of its merges, and why it is this one."""

    strategy: str
    interval: int
    gain: float
    """Its samples per second over those of Synchronous."""

    why: str


class _Candidate(NamedTuple):
    interval: int
    estimate: Estimate

    @property
    def speed(self) -> float:
        return self.estimate.samples_per_second


def choose(question: Question) -> Chosen:
    """Return what to train with, on these workers and this network."""
    shares = balanced(question)
    usual = synchronous(question, shares, "Synchronous")
    if len(question.workers) < 2:
        return Chosen(usual.strategy, 1, 1.0, "one worker has nobody to exchange with")
    base, others = usual.samples_per_second, list(_candidates(question, shares))
    best = max(others, key=lambda each: each.speed)
    part = question.exposed_seconds * base / question.global_batch
    exchange = f"an exchange takes {part:.0%} of a step"
    if best.speed < LEAST_GAIN * base:
        why = (
            f"{exchange}: {best.estimate.strategy} would have {best.speed / base:.2f} × its samples per second, and"
            f" less than {LEAST_GAIN:g} × is not worth another result"
        )
        return Chosen(usual.strategy, 1, 1.0, why)
    least = max(NEAR_BEST * best.speed, LEAST_GAIN * base)
    found = next(each for each in others if each.speed >= least)
    gain = found.speed / base
    why = f"{exchange}: {gain:.1f} × the samples per second of Synchronous, with a merge every {found.interval} steps"
    return Chosen(found.estimate.strategy, found.interval, gain, why)


def _candidates(question: Question, shares: Sequence[int]) -> Iterator[_Candidate]:
    """Yield everything but Synchronous, the least drifting first."""
    groups = question.groups
    step = max(worker.seconds(share) for worker, share in zip(question.workers, shares, strict=True))
    most = max(2.0, _LONGEST_ROUND_SECONDS / step)
    if len(groups) > 1 and max(groups.values()) > 1:
        for interval in (each for each in _GROUP_INTERVALS if each <= most):
            yield _Candidate(interval, hierarchical(replace(question, interval=interval)))
    # Steps of the script's own optimizer, whatever the manifest would have LocalSGD do.
    plain = replace(question, local_batch=None, local_merged=1, local_anchors=False)
    for interval in (each for each in _LOCAL_INTERVALS if each <= most):
        yield _Candidate(interval, local_sgd(replace(plain, local_interval=interval)))
