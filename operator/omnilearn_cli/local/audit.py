"""Check the guarantee from outside: every sample of a committed round was computed once, by somebody. Pure.

The workers keep a ledger of their own; this one is made from what each of them wrote down.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .traces import Interval, Round


@dataclass(frozen=True, slots=True)
class Audit:
    """Samples by what became of them. Unseen: of a member that died before it wrote its line."""

    rounds: int = 0
    samples: int = 0
    lost: int = 0
    doubled: int = 0
    outside: int = 0
    unseen: int = 0
    missing_rounds: int = 0
    superseded: int = 0
    findings: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """True if nothing contradicts the guarantee."""
        return not (self.lost or self.doubled or self.outside)

    def __add__(self, other: Audit) -> Audit:
        return Audit(
            self.rounds + other.rounds,
            self.samples + other.samples,
            self.lost + other.lost,
            self.doubled + other.doubled,
            self.outside + other.outside,
            self.unseen + other.unseen,
            self.missing_rounds + other.missing_rounds,
            self.superseded + other.superseded,
            (self.findings + other.findings)[:10],
        )


def audit(rounds: Sequence[Round]) -> Audit:
    """Return the audit of all rounds, in order."""
    total = audit_gradients([one for one in rounds if one.any.kind == "gradient"])
    together = [one for one in rounds if one.any.kind != "gradient"]
    for one in together:
        total += audit_round(one)
    if len(together) < len(rounds):
        return total  # updates of a server are rounds that nobody reduces
    for before, after in pairwise(rounds):
        total += Audit(missing_rounds=after.number - before.number - 1)
    return total + audit_epochs(rounds)


def audit_gradients(rounds: Sequence[Round]) -> Audit:
    """Check that no sample of a pass was in two gradients that a server applied.

    What nobody tells of was not seen: a worker may have died before it wrote the line. The server's ledger knows.
    """
    total = Audit()
    for epoch in sorted({one.any.epoch for one in rounds}):
        lines = [one.any for one in rounds if one.any.epoch == epoch]
        pieces = sorted(piece for line in lines for piece in line.mine)
        low, high = lines[0].interval
        computed, covered = sum(b - a for a, b in pieces), covered_length(pieces)
        doubled = computed - covered
        findings = (f"pass {epoch}: {doubled} samples doubled",) if doubled else ()
        total += Audit(len(lines), computed, 0, doubled, 0, high - low - covered, 0, 0, findings)
    return total


def audit_round(one: Round) -> Audit:
    """Check that what the members of a round contributed is its interval, once."""
    low, high = one.any.interval
    pieces = sorted((piece for line in one.parts.values() for piece in line.mine), key=lambda piece: piece[0])
    inside = [(max(a, low), min(b, high)) for a, b in pieces if min(b, high) > max(a, low)]
    computed = sum(b - a for a, b in inside)
    outside = sum(b - a for a, b in pieces) - computed
    covered = covered_length(inside)
    gap, doubled = high - low - covered, computed - covered
    silent = [member for member in one.any.members if member not in one.parts]
    lost = 0 if silent else gap
    findings = []
    if lost or doubled or outside:
        findings.append(f"round {one.number}: {lost} samples lost, {doubled} doubled, {outside} of other rounds")
    return Audit(1, high - low, lost, doubled, outside, gap - lost, 0, one.superseded, tuple(findings))


def audit_epochs(rounds: Iterable[Round]) -> Audit:
    """Check that the steps of an epoch follow each other without gap and without overlap."""
    total = Audit()
    steps = [one for one in rounds if one.any.kind == "step"]
    for before, after in pairwise(steps):
        if before.any.epoch != after.any.epoch or after.any.step != before.any.step + 1:
            continue
        between = after.any.interval[0] - before.any.interval[1]
        if between:
            what = f"steps {before.any.step} and {after.any.step}: {abs(between)} samples"
            words = f"{what} between them" if between > 0 else f"{what} in both"
            total += Audit(lost=max(between, 0), doubled=max(-between, 0), findings=(words,))
    return total


def covered_length(intervals: Iterable[Interval]) -> int:
    """Return how many positions intervals cover, which are sorted by their beginning."""
    covered, reach = 0, 0
    for low, high in intervals:
        covered += max(high - max(low, reach), 0)
        reach = max(reach, high)
    return covered
