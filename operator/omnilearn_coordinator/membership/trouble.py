"""What is wrong with the present generations: lost members, broken operations, formations that take too long.

`find` judges the newest generation and, while a planned one is only being built, the one that still trains.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnilearn_core.api.messages import Change

from .generation import Generation
from .state import State, listing

# After `broken`, the news of a closed connection usually follows at once; each time in vain we wait twice as long.
_GRACE_SECONDS = 0.1
_LONGEST_GRACE_SECONDS = 5.0

# A joiner that so often could not be built in is sent away.
MOST_MISSES_OF_A_JOINER = 3


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a new generation is needed, and how it has to be formed."""

    change: Change
    why: str
    without: frozenset[str] = frozenset()
    """Members to leave out, although they are there."""

    missed: frozenset[str] = frozenset()
    """Members that have not built their group."""

    futile: bool = False
    """Nobody was lost: it may happen again with the next one."""

    away: frozenset[str] = frozenset()
    """Joiners to be sent away."""


def find(state: State, now: float) -> Trouble | None:
    """Return what is wrong, or None."""
    newest, standing = state.newest, state.standing
    if newest is None:
        return None
    if newest.change is not Change.PLANNED or newest is standing:
        return _worn(state, newest, now) or _late(state, newest, now)
    # A planned generation that nobody has entered: what trains is the standing one.
    if standing is not None:
        worn = _worn(state, standing, now)
        if worn is not None:
            return worn
    return _unplanned(state, newest, now)


def due(state: State) -> float | None:
    """Return when a generation that was said to be broken has to be replaced, if nothing else is heard."""
    times = [g.broken + _grace(state) for g in state.chain if g.broken is not None]
    return min(times, default=None)


def _grace(state: State) -> float:
    return min(_GRACE_SECONDS * 2.0 ** min(state.futile, 10), _LONGEST_GRACE_SECONDS)


def _worn(state: State, generation: Generation, now: float) -> Trouble | None:
    missing = state.missing(generation)
    if missing:
        return Trouble(Change.URGENT, f"{listing(m.worker for m in missing)} is gone")
    if generation.broken is not None and now >= generation.broken + _grace(state):
        return Trouble(Change.URGENT, f"broken without a loss ({generation.why_broken})", futile=True)
    return None


def _late(state: State, generation: Generation, now: float) -> Trouble | None:
    """Judge a generation for which training waits."""
    if generation.is_entered:
        return None
    settings = state.settings
    everybody = frozenset(generation.names)
    if generation.change is Change.PLANNED:
        began = generation.assigned if generation.first_entered is None else generation.first_entered
        if now - began <= settings.entry_timeout:
            return None
        late = everybody - generation.entered
        return Trouble(Change.URGENT, f"{listing(sorted(late))} has not entered", late, late, futile=True)
    unbuilt = everybody - generation.built
    # Whoever has built it first finishes what it computes, and may receive a large model then.
    limit = settings.formation_timeout if unbuilt else settings.entry_timeout
    if now - generation.assigned <= limit:
        return None
    # If nobody has built it, nobody in particular is to blame.
    without = unbuilt if generation.built else frozenset[str]()
    why = f"not {'built' if unbuilt else 'entered'} by all within {limit:g} s"
    return Trouble(Change.URGENT, why, without, unbuilt, futile=True)


def _unplanned(state: State, generation: Generation, now: float) -> Trouble | None:
    """Judge a planned generation that is being built beside training."""
    missing = state.missing(generation)
    if missing:
        return Trouble(Change.PLANNED, f"{listing(m.worker for m in missing)} is gone")
    unbuilt = frozenset(generation.names) - generation.built
    joiners = frozenset(m.worker for m in generation.members if m.fresh)
    if unbuilt and now - generation.assigned > state.settings.join_timeout:
        why = f"not built within {state.settings.join_timeout:g} s"
        if unbuilt & joiners:
            return Trouble(Change.PLANNED, why, missed=unbuilt, away=unbuilt & joiners)
        return Trouble(Change.URGENT, why, missed=unbuilt, futile=True)
    # Members that step switch at the next boundary; members that do not would wait for ever, and longer each time.
    patience = state.settings.join_timeout * 2.0 ** min(state.failed_plans + 1, 10)
    if not unbuilt and now - max(generation.assigned, state.progressed_at) > patience:
        return Trouble(Change.URGENT, f"no step was committed for {patience:g} s", futile=True)
    if generation.broken is None or now < max(generation.broken + _grace(state), state.planned_not_before):
        return None
    away = {name for name in unbuilt & joiners if state.misses.get(name, 0) + 1 >= MOST_MISSES_OF_A_JOINER}
    return Trouble(Change.PLANNED, f"broken ({generation.why_broken})", missed=unbuilt, away=frozenset(away))
