"""How generations are formed: start, urgent and planned. What has to wait leaves the generations as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from omnilearn_core.api.messages import Change, GenerationId

from .actions import Assign, Kind, Refuse
from .generation import Generation, Worker
from .state import Outcome, State, listing
from .trouble import Trouble

# Regroups in a row without a new round: first leave out whoever built least often, in the end give up.
PATIENCE, END_OF_PATIENCE = 5, 20

_FIRST_HOLD_OFF_SECONDS, _LONGEST_HOLD_OFF_SECONDS = 0.5, 60.0


def start(state: State, now: float, without: frozenset[str] = frozenset()) -> State:
    """Begin with those who are there, when all have come or nobody has for a while."""
    settings = state.settings
    enough = max(settings.fewest, 1)
    there = state.joiners()
    wanted = [worker for worker in there if worker.name not in without]
    there = wanted if len(wanted) >= enough else there
    if len(there) < enough:
        return state.waiting_for(f"waiting for workers: {len(there)} of the {enough} needed are there")
    if not _may_start(state, there, now):
        return state
    members = sorted(there[: settings.most], key=lambda worker: worker.name)
    state = replace(state, round=-1, step=-1)
    return _assign(state, Change.START, [(worker, False) for worker in members], "nobody holds a model yet", now)


def _may_start(state: State, there: Sequence[Worker], now: float) -> bool:
    newest, settings = state.newest, state.settings
    # A start that was never entered by all has committed nothing: try again at once.
    if newest is not None and newest.change is Change.START and not newest.is_entered:
        return True
    # After a change of coordinators, or of a loss of everybody, members may come back that hold a model: as long as
    # those of other jobs do, if all have to.
    unknown = state.term > 1 or newest is not None
    wait = max(settings.start_wait, state.silent_after) if unknown else settings.start_wait
    replaced = newest is None or all(
        state.attempts.get(m.worker, 0) > m.attempt or any(w.name == m.worker for w in there) for m in newest.members
    )
    all_there = len(there) >= min(settings.expected, settings.most) and replaced
    return all_there or now - max(state.last_change, state.crowd_arrived) >= wait


def urgent(state: State, trouble: Trouble, now: float) -> State:
    """Go on with those who hold the model; with joiners only if they are too few."""
    counted, without = _count(state, trouble, now)
    if counted.outcome is not None:
        return counted
    after = _survive(state, trouble.why, without, now)
    if after.highest == state.highest:  # not formed yet: it counts when it is
        return after
    return replace(
        after,
        futile=counted.futile,
        misses=counted.misses,
        failed_plans=counted.failed_plans,
        planned_not_before=counted.planned_not_before,
    )


def _survive(state: State, why: str, without: frozenset[str], now: float) -> State:
    holders = state.holders()
    if not holders:
        return start(state, now, without)
    kept = [worker for worker in holders if worker.name not in without] or holders
    members = [(worker, False) for worker in kept] + _unfinished(state, kept, without)
    fewest, most = state.settings.fewest, state.settings.most
    if len(members) < fewest:
        inside = {worker.name for worker, _ in members}
        outside = [w for w in (*holders, *state.joiners()) if w.name not in inside]
        members += [(worker, True) for worker in outside[: max(most - len(members), 0)]]
    if len(members) < fewest:
        # Who wants to leave need not wait with the others: it saves the model, if that falls to it, and goes.
        return _let_go(state).waiting_for(f"waiting for workers: {len(members)} of the {fewest} needed are there")
    return _assign(state, Change.URGENT, members, why, now)


def _unfinished(state: State, kept: Sequence[Worker], without: frozenset[str]) -> list[tuple[Worker, bool]]:
    """Return the members of a start that have not entered it yet: they are not late joiners."""
    newest = state.newest
    if newest is None or newest.change is not Change.START or newest.is_entered:
        return []
    inside = {worker.name for worker in kept} | without
    return [(w, True) for w in state.joiners() if w.name in newest.names and w.name not in inside]


def _count(state: State, trouble: Trouble, now: float) -> tuple[State, frozenset[str]]:
    """Count a regroup in vain; return whom to leave out, and the job's end if it was one too many."""
    if not trouble.futile:
        return state, trouble.without
    futile, misses = state.futile + 1, _missed(state, trouble)
    state = replace(state, futile=futile, misses=misses)
    if state.newest is not None and state.newest.change is Change.PLANNED:
        state = _hold_off(state, now)
    if futile >= END_OF_PATIENCE:
        why = (
            f"the workers could not form a group {futile} times in a row ({trouble.why}):"
            " check that they reach each other over the network"
        )
        return replace(state, outcome=Outcome(complete=False, why=why)).telling(Kind.JOB_FAILED, why), trouble.without
    if futile < PATIENCE or state.newest is None:
        return state, trouble.without
    worst = max(state.newest.names, key=lambda name: misses.get(name, 0))
    return state, trouble.without | {worst}


def planned(state: State, trouble: Trouble | None, now: float) -> State:
    """Take joiners in and let leavers go, at a step boundary."""
    if trouble is not None:
        state = _failed_plan(state, trouble, now)
    elif not _may_plan(state, now):
        return state
    holders = state.holders()
    staying = [worker for worker in holders if not worker.leaving]
    joiners = state.joiners()[: max(state.settings.most - len(staying), 0)]
    leaving = len(staying) < len(holders)
    if joiners and not staying:
        staying = holders[:1]  # somebody has to hand the model over before it may leave
    switching = state.newest is not None and state.newest.choice != state.choice
    if not joiners and not leaving and not switching and trouble is None:
        return state
    if leaving and len(staying) + len(joiners) < max(state.settings.fewest, 1):
        return _let_go(state)
    why = trouble.why if trouble else _reason(holders, joiners)
    members = [(worker, False) for worker in staying] + [(worker, True) for worker in joiners]
    return _assign(state, Change.PLANNED, members, why, now)


def _may_plan(state: State, now: float) -> bool:
    newest = state.newest
    if newest is None or not newest.is_entered or newest.broken is not None or now < state.planned_not_before:
        return False
    # A job that is about to end takes nobody in.
    return not any(worker.done is not None and worker.done.generation == newest.id for worker in state.holders())


def _failed_plan(state: State, trouble: Trouble, now: float) -> State:
    misses = _missed(state, trouble)
    for name in sorted(trouble.away):
        misses.pop(name, None)
        worker = state.workers[name]
        sentence = f"{name} could not be taken in ({trouble.why}): it may try again"
        state = state.without_worker(name).wanting(Refuse(name, worker.connection, sentence))
        state = state.telling(Kind.REFUSED, sentence, name)
    return _hold_off(replace(state, misses=misses), now)


def _missed(state: State, trouble: Trouble) -> dict[str, int]:
    misses = dict(state.misses)
    for name in trouble.missed:
        misses[name] = misses.get(name, 0) + 1
    return misses


def _hold_off(state: State, now: float) -> State:
    """Wait longer before the next plan, the more have failed: the members train meanwhile."""
    failed = state.failed_plans + 1
    hold_off = min(_FIRST_HOLD_OFF_SECONDS * 2.0 ** min(failed - 1, 10), _LONGEST_HOLD_OFF_SECONDS)
    return replace(state, failed_plans=failed, planned_not_before=now + hold_off)


def _let_go(state: State) -> State:
    """Release the leavers although too few stay: they will be gone soon in any case."""
    for worker in state.holders():
        if worker.leaving:
            state = state.with_worker(replace(worker, holds=False))
    return state


def _reason(holders: Sequence[Worker], joiners: Sequence[Worker]) -> str:
    leavers = [worker.name for worker in holders if worker.leaving]
    parts = [f"{listing(leavers)} leaves"] if leavers else []
    parts += [f"{listing(worker.name for worker in joiners)} joins"] if joiners else []
    return " and ".join(parts) or "a strategy was chosen"


def _assign(state: State, change: Change, members: Sequence[tuple[Worker, bool]], why: str, now: float) -> State:
    # A sort keeps the order of all others: the first rank is the server's.
    members = sorted(members, key=lambda each: not state.settings.only_serves(each[0].name))
    generation = Generation(
        id=GenerationId(number=state.highest + 1, nonce=state.nonce),
        change=change,
        members=tuple(worker.as_member(fresh=fresh) for worker, fresh in members),
        assigned=now,
        choice=state.choice,
    )
    inside = {worker.name for worker, _ in members}
    told = [w.name for w in state.workers.values() if w.name not in inside and w.active and state.is_member(w)]
    workers = {
        name: _placed(worker, change, generation, is_member=name in inside) for name, worker in state.workers.items()
    }
    state = replace(state, workers=workers, waiting=None, regroups=state.regroups + bool(state.chain))
    state = state.with_newest(generation)
    state = state.wanting(*(Assign(name, generation) for name in (*generation.names, *told)))
    sentence = f"generation {generation.number} ({change}) with {len(inside)} members: {why}"
    return state.telling(Kind.GENERATION, sentence)


def _placed(worker: Worker, change: Change, generation: Generation, *, is_member: bool) -> Worker:
    if change is Change.START:
        worker = replace(worker, holds=False)
    if is_member:
        # A joiner has had nothing to say until now: that was no silence.
        return replace(worker, heard=max(worker.heard, generation.assigned))
    if change is Change.PLANNED:
        return worker
    return replace(worker, holds=False, after=generation.number)
