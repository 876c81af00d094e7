"""`act`: what follows from the state and the time. Pure: the same state and time give the same actions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from omnilearn_core.api.messages import Change

from . import forming, trouble
from .actions import Action, Disconnect, Kind, Release
from .adoption import adopt
from .observe import lost
from .state import Outcome, State

# Everything that has no deadline of its own is looked at so often; where nothing is under way, less often.
_LONGEST_PAUSE_SECONDS = 0.25
_LONGEST_REST_SECONDS = 1.0


def act(state: State, now: float) -> tuple[State, tuple[Action, ...]]:
    """Return the state after all decisions that are due, and what has to be done."""
    if state.outcome is None:
        state = adopt(without_silent(state, state.silent_after, now), now)
    if state.outcome is None and state.adopting_since is None:
        state = _regrouped(_completed(state), now)
    state = _released(state)
    return replace(state, outbox=()), state.outbox


def next_look(state: State, now: float) -> float:
    """Return in how many seconds to act again, if nothing is heard before."""
    if _is_at_rest(state):
        silent = min((w.heard for w in state.workers.values() if w.holds and w.active), default=now)
        longest = max(_LONGEST_REST_SECONDS, state.report_seconds)
        return min(max(silent + state.silent_after - now, 0.01), longest)
    if state.adopting_since is not None:
        return _LONGEST_REST_SECONDS  # whoever comes back is heard of
    due = trouble.due(state)
    if due is None or due <= now:
        return _LONGEST_PAUSE_SECONDS
    return min(due - now, _LONGEST_PAUSE_SECONDS)


def _is_at_rest(state: State) -> bool:
    """Tell whether only a message or a silence can change anything: all train, or nobody is there."""
    if state.outcome is not None or not state.workers:
        return True
    newest = state.newest
    if newest is None or len(state.chain) > 1 or state.adopting_since is not None or state.waiting is not None:
        return False
    if newest.choice != state.choice:
        return False
    others = len(state.workers) - len(newest.members)
    return others == 0 and newest.is_entered and newest.broken is None and not state.missing(newest)


def without_silent(
    state: State, limit: float, now: float, among: Collection[tuple[str, int]] | None = None, why: str = ""
) -> State:
    """Drop the holders, or some ``among`` them, that were not heard of for too long.

    Whoever builds or waits has deadlines of its own.
    """
    silent = [w for w in state.workers.values() if w.holds and w.active and now - w.heard > limit]
    for worker in silent if among is None else [w for w in silent if (w.name, w.attempt) in among]:
        said = f"nothing was heard of it for {limit:g} s"
        state = lost(state, worker, f"{why}, and {said}" if why else said, now)
        state = state.wanting(Disconnect(worker.name, worker.connection))
    return state


def _completed(state: State) -> State:
    """End the job when everybody who holds the model has come to the end of the script."""
    standing = state.standing
    holders = state.holders()
    if standing is None or not holders:
        return state
    ends = {worker.name: worker.done for worker in holders if worker.done is not None}
    if any(worker.done is None or worker.done.generation != standing.id for worker in holders):
        return state
    why = f"the script has come to its end on all {len(holders)} members"
    return replace(state, outcome=Outcome(True, why, ends), waiting=None).telling(Kind.JOB_COMPLETE, why)


def _regrouped(state: State, now: float) -> State:
    if state.outcome is not None:
        return state
    found = trouble.find(state, now)
    if found is not None and found.change is Change.URGENT:
        return forming.urgent(state, found, now)
    if state.newest is None:
        return forming.start(state, now)
    return forming.planned(state.waiting_for(None), found, now)


def _released(state: State) -> State:
    """Let go who may: everybody at the end; before that, leavers that nobody needs any more."""
    for worker in list(state.workers.values()):
        if worker.released:
            continue
        if state.outcome is not None:
            release = Release(worker.name, state.outcome.why, failed=not state.outcome.complete)
        elif worker.leaving and not worker.holds and worker.name not in state.claims:
            release = Release(worker.name, "it has left as it wished")
        else:
            continue
        state = state.with_worker(replace(worker, released=True, holds=False)).wanting(release)
    return state
