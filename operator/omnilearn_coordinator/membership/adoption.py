"""How a coordinator that knows nothing takes over a generation that is training already."""

from __future__ import annotations

from dataclasses import replace

from omnilearn_core.api.messages import Change, GenerationId, MemberAddress
from omnilearn_core.api.strategy import Choice, StrategyType

from .actions import Adopt, Kind
from .generation import Generation
from .state import State


def adopt(state: State, now: float) -> State:
    """Adopt the newest generation that workers say they are in, when its members have come back or had the time to."""
    if state.adopting_since is None:
        return state
    found = _best(state)
    if found is None:  # all who were in one have gone again
        return replace(state, adopting_since=None, claims={})
    best, members = found
    back = all(m.worker in state.workers and state.workers[m.worker].active for m in members)
    # As long as others come back, so may they: all come at once, and each takes its time.
    if not back and now - max(state.adopting_since, state.crowd_arrived) < state.silent_after:
        return state.waiting_for(f"taking over generation {best.number}: some of its members are not back yet")
    chosen = _chosen(state, best)
    inside = frozenset(name for name, claim in state.claims.items() if claim.join.generation == best)
    generation = Generation(
        id=best,
        change=Change.URGENT,
        members=members,
        assigned=now,
        built=inside,
        entered=inside,
        first_entered=now,
        broken=now if _is_left(state, best) else None,
        why_broken="it was about to be left when its coordinator was lost",
        choice=chosen,
    )
    state = replace(state, choice=chosen or state.choice)
    state = replace(_settled(state, generation, now), adopting_since=None, claims={}, chain=(generation,), waiting=None)
    sentence = f"generation {best.number} with {len(members)} members goes on under this coordinator"
    return state.wanting(Adopt(best)).telling(Kind.ADOPTED, sentence)


def _best(state: State) -> tuple[GenerationId, tuple[MemberAddress, ...]] | None:
    """Return the generation with the highest number; of two with the same number, the one that more workers name."""
    named: dict[GenerationId, list[tuple[MemberAddress, ...]]] = {}
    for name, claim in state.claims.items():
        worker = state.workers.get(name)
        join = claim.join
        if worker is None or worker.attempt != claim.attempt or join.generation is None or not join.members:
            continue
        if any(m.worker == name and m.attempt == claim.attempt for m in join.members):
            named.setdefault(join.generation, []).append(tuple(join.members))
    if not named:
        return None
    best = max(named, key=lambda generation: (generation.number, len(named[generation]), generation.nonce))
    return best, named[best][0]


def _chosen(state: State, best: GenerationId) -> Choice | None:
    """Return what its members say that Auto has chosen, if it is Auto."""
    if state.settings.strategy.type is not StrategyType.AUTO:
        return None
    said = (claim.join.choice for claim in state.claims.values() if claim.join.generation == best)
    return next((choice for choice in said if choice is not None), None)


def _is_left(state: State, best: GenerationId) -> bool:
    """Tell whether a member found the generation broken, or has heard of a newer one that is not known here."""
    claims = [claim for claim in state.claims.values() if claim.join.generation == best]
    return any(claim.broken or claim.join.last_generation > best.number for claim in claims)


def _settled(state: State, generation: Generation, now: float) -> State:
    """Say of every worker whether it holds the model: who is in the generation, or on its way into it.

    A member that is not fresh and still names an older generation held the model when this one was assigned, and
    nobody can have gone on without it.
    """
    workers = {}
    for name, worker in state.workers.items():
        claim = state.claims.get(name)
        member = generation.member(name, worker.attempt)
        named = claim.join.generation if claim and claim.attempt == worker.attempt else None
        holds = member is not None and named is not None and (named == generation.id or not member.fresh)
        after = generation.number - 1 if holds else generation.number
        workers[name] = replace(worker, holds=holds, after=after, heard=max(worker.heard, now))
    return replace(state, workers=workers)
