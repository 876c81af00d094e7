"""`Affine`, the default law: a line per worker, everybody done at the same time, changes only when they pay.

`learn` (learning.py) turns reports into lines. `propose` leans them on their class (pooling.py), solves for equal
finish times (shares.py), lets workers rest that cost more than they bring (resting.py) and asks whether the gain is
worth a change. While the lines promise more than they deliver, it splits in proportion to throughput instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from . import alike, ceilings, learning, pooling, resting, speeds
from .curve import Numbers, deviation
from .law import Proposal
from .learning import Knowledge
from .reports import Report, Situation
from .shares import ImpossibleSplitError, Slot, balance, makespan
from .tuning import Tuning
from .words import duration, listing, moves, percent, short, slower_or_faster

# A sample costs at least this part of the fixed cost: floating point cannot solve for flatter lines.
_FLATTEST = 1e-9

# How often to ask whether fixed costs scale with speed: the answer hardly changes.
_BELIEF_WINDOWS = 4


@dataclass(frozen=True, slots=True)
class Affine:
    """Equal finish times from a fitted line per worker."""

    name: str = "Affine"
    tuning: Tuning = field(default_factory=Tuning)

    def fresh(self) -> Knowledge:
        """Return an empty memory."""
        return Knowledge()

    def learn(self, memory: Knowledge, heard: tuple[Report, ...], situation: Situation) -> Knowledge:
        """Fold the reports, and new CPU quotas, into what is known."""
        return learning.learn(memory, heard, situation, self.tuning)

    def propose(self, memory: Knowledge, situation: Situation, shares: Mapping[str, int] | None) -> Proposal[Knowledge]:
        """Split for equal finish times if that pays; without news, keep."""
        if not any(member.worker in memory.curves for member in situation.members):
            split, why = (dict(shares), "waiting for a first report") if shares else speeds.opening(situation, {})
            return Proposal(memory, split, why)
        if shares is not None and not memory.news:
            return Proposal(memory, dict(shares), "no news")
        view = _View.of(memory, ceilings.under(memory.ceilings, situation))
        if memory.fallback and shares is not None:
            return _fall_back(memory, view, shares)
        rested = resting.split(memory, view.situation, view.slots, self.tuning)
        if shares is None:
            return _promise(memory, view, rested, rested.shares, "split by known speeds")
        current = [shares[member.worker] for member in situation.members]
        if rested.news or not view.situation.allows(shares):
            why = f"{view.moves(current, rested.shares)}: {rested.news or 'a larger share was slower'}"
            return _promise(memory, view, rested, rested.shares, why)
        proposed = self._careful(view, current, self._trusted(view, current, rested.shares))
        gains, why = self._weigh(memory, view, current, proposed)
        return _promise(memory, view, rested, proposed if gains else current, why)

    def _trusted(self, view: _View, current: Sequence[int], proposed: list[int]) -> list[int]:
        """Hold every share within the trusted factor of what it is, if the batch can be split so."""
        fair, trust = view.situation.global_batch // len(current), self.tuning.trust
        if all(
            now // trust <= share <= (trust * now if now * trust > fair else fair)
            for now, share in zip(current, proposed, strict=True)
        ):
            return proposed
        lows = [max(slot.minimum, now // trust) for slot, now in zip(view.slots, current, strict=True)]
        highs = [min(slot.maximum, max(trust * now, fair)) for slot, now in zip(view.slots, current, strict=True)]
        held = [
            slot._replace(minimum=min(low, high), maximum=high)
            for slot, low, high in zip(view.slots, lows, highs, strict=True)
        ]
        try:
            return balance(view.situation.global_batch, held)
        except ImpossibleSplitError:
            return proposed

    def _careful(self, view: _View, current: Sequence[int], proposed: list[int]) -> list[int]:
        """Give less to those who may disappoint if they alone keep the gain from being worth a change.

        Without this, a worker whose share has once become small stays there: nothing is learned by keeping still.
        """
        enough, caution = (1.0 - self.tuning.gain) * makespan(current, view.slots), self.tuning.caution
        if makespan(proposed, view.slots) >= enough or view.cautious(current, proposed, caution) < enough:
            return proposed
        doubted = [
            slot._replace(fixed=slot.fixed + caution * deviation(line, then), maximum=then) if then > now else slot
            for slot, line, now, then in zip(view.slots, view.lines, current, proposed, strict=True)
        ]
        return balance(view.situation.global_batch, doubted)

    def _weigh(self, memory: Knowledge, view: _View, current: list[int], proposed: list[int]) -> tuple[bool, str]:
        """Tell whether the proposed split pays even when those who get more disappoint, and say so."""
        now = makespan(current, view.slots)
        then = view.cautious(current, proposed, self.tuning.caution)
        if proposed == current or then >= (1.0 - self.tuning.gain) * now:
            return False, f"balanced: no split promises more than {percent(max(1.0 - then / now, self.tuning.gain))}"
        promised = duration(makespan(proposed, view.slots))
        return True, f"{view.moves(current, proposed)}: {_reason(memory)}step {duration(now)} → {promised}"


@dataclass(frozen=True, slots=True)
class _View:
    """The members with their lines, in order, as one decision sees them."""

    situation: Situation
    lines: list[Numbers]
    slots: list[Slot]
    fixed_scales: bool

    @classmethod
    def of(cls, memory: Knowledge, situation: Situation) -> _View:
        """Lean every member's line on its device class and its group; who has none gets one like the others'."""
        known, scales = memory.curves, memory.fixed_scales
        classes: dict[str, list[str]] = {}
        groups: dict[str, list[str]] = {}
        for member in situation.members:
            if member.worker in known:
                classes.setdefault(member.device, []).append(member.worker)
                groups.setdefault(member.group, []).append(member.worker)
        if memory.window % _BELIEF_WINDOWS == 1:
            scales = pooling.prefer_scaling([[known[w] for w in workers] for workers in classes.values()], scales)
        leaning: dict[str, Numbers] = {}
        for workers in classes.values():
            leaning.update(zip(workers, pooling.lean([known[w] for w in workers], scales), strict=True))
        for workers in groups.values():
            share = sum([known[worker].share for worker in workers]) / len(workers)
            leaning.update(zip(workers, alike.gather([leaning[w] for w in workers], share), strict=True))
        leaning |= learning.guesses(leaning, situation.members)
        lines = [leaning[member.worker] for member in situation.members]
        slots = [
            Slot(line[0], max(line[1], line[0] * _FLATTEST), low, high)
            for line, (low, high) in zip(lines, situation.bounds(), strict=True)
        ]
        return cls(situation, lines, slots, scales)

    def cautious(self, current: Sequence[int], proposed: Sequence[int], sigmas: float) -> float:
        """Return the step seconds of ``proposed`` if those who get more are ``sigmas`` slower than thought."""
        worst = 0.0
        for line, now, then in zip(self.lines, current, proposed, strict=True):
            if then:
                seconds = line[0] + line[1] * then
                if then > now:
                    seconds += sigmas * deviation(line, then)
                worst = max(worst, seconds)
        return worst

    def named(self, shares: Sequence[int]) -> dict[str, int]:
        """Return the shares by worker."""
        return {member.worker: share for member, share in zip(self.situation.members, shares, strict=True)}

    def moves(self, current: Sequence[int], proposed: Sequence[int]) -> str:
        """Tell the largest changes, or that there is none."""
        return moves(self.named(current), self.named(proposed)) or "as before"


def _promise(
    memory: Knowledge, view: _View, rested: resting.Rested, shares: Sequence[int], why: str
) -> Proposal[Knowledge]:
    """Propose the shares and remember the step time that they promise."""
    promised = makespan(shares, view.slots)
    after = replace(memory, promised=promised, rests=rested.rests, fixed_scales=view.fixed_scales)
    return Proposal(after, view.named(shares), why)


def _fall_back(memory: Knowledge, view: _View, shares: Mapping[str, int]) -> Proposal[Knowledge]:
    """Split by the newest throughput: the lines have promised more than they delivered."""
    measured = {worker: curve.share / curve.seconds for worker, curve in memory.curves.items()}
    split, _ = speeds.opening(view.situation, measured)
    why = f"{moves(shares, split) or 'as before'}: in proportion to throughput, for {memory.fallback} more windows"
    return Proposal(memory, split, why)


def _reason(memory: Knowledge) -> str:
    """Name the workers whose speed has changed, if that is why."""
    if memory.retuned:
        return f"new CPU quota of {listing(memory.retuned)}; "
    if not memory.jumps:
        return ""
    worker, ratio = max(memory.jumps.items(), key=lambda item: abs(item[1] - 1.0))
    others = f" and {len(memory.jumps) - 1} more changed" if len(memory.jumps) > 1 else ""
    return f"{short(worker)} is {slower_or_faster(ratio)}{others}; "
