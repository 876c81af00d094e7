"""Laws without feedback: `Uniform` and `Static`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from . import speeds
from .bounded import Positive
from .law import Proposal
from .reports import Report, Situation
from .words import moves


@dataclass(frozen=True, slots=True)
class Nothing:
    """The memory of a law that needs none."""


@dataclass(frozen=True, slots=True)
class Uniform:
    """Equal shares, whatever the speeds: what plain data-parallel training does."""

    name: str = "Uniform"

    def fresh(self) -> Nothing:
        """Return the empty memory."""
        return Nothing()

    def learn(self, memory: Nothing, heard: tuple[Report, ...], situation: Situation) -> Nothing:
        """Learn nothing."""
        return memory

    def propose(self, memory: Nothing, situation: Situation, shares: Mapping[str, int] | None) -> Proposal[Nothing]:
        """Split equally within the bounds."""
        equal = speeds.by_weight(situation, [1.0] * len(situation.members))
        return Proposal(memory, equal, "equal shares")


@dataclass(frozen=True, slots=True)
class Probed:
    """The memory of `Static`: the first speed that each worker measured, in samples per second."""

    speeds: dict[str, Positive]


@dataclass(frozen=True, slots=True)
class Static:
    """Shares in proportion to declared capacity, else CPU quota, else a first measurement; then never again."""

    name: str = "Static"

    def fresh(self) -> Probed:
        """Return a memory without speeds."""
        return Probed({})

    def learn(self, memory: Probed, heard: tuple[Report, ...], situation: Situation) -> Probed:
        """Keep the first speed of each worker."""
        new = {r.worker: r.share / r.seconds for r in heard if r.worker not in memory.speeds}
        return Probed({**memory.speeds, **new}) if new else memory

    def propose(self, memory: Probed, situation: Situation, shares: Mapping[str, int] | None) -> Proposal[Probed]:
        """Split by what was declared, or by the probe once every member has one."""
        stated = speeds.declared(situation.members)
        if stated is not None:
            return Proposal(memory, speeds.by_weight(situation, stated[0]), f"split by {stated[1]}")
        unknown = [m.worker for m in situation.members if m.worker not in memory.speeds]
        if shares is None or unknown:
            split, why = speeds.opening(situation, memory.speeds)
            return Proposal(memory, split if shares is None else dict(shares), why)
        split = speeds.by_weight(situation, [memory.speeds[m.worker] for m in situation.members])
        why = "split by the probe" if split == shares else f"{moves(shares, split)}: split by the probe"
        return Proposal(memory, split, why)
