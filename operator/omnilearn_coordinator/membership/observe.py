"""`observe`: what an event changes in the state. Nothing is decided here but who a worker is."""

from __future__ import annotations

from dataclasses import replace

from omnilearn_core.api import messages
from omnilearn_core.api.messages import Change, GenerationId
from omnilearn_core.api.strategy import Choice

from .actions import Assign, Disconnect, Kind, Refuse
from .events import (
    Broken,
    Built,
    Chosen,
    Closed,
    Connected,
    Entered,
    Event,
    Failed,
    Finished,
    Heard,
    HeardAll,
    HeldUp,
    Joined,
    Leaving,
    WorkerEvent,
)
from .generation import Generation, Worker
from .state import Claim, Outcome, State

_HIGHEST_NUMBER = 2**40


def observe(state: State, event: Event, now: float) -> State:
    """Return the state after an event. Events of a connection that is no longer the worker's change nothing."""
    if isinstance(event, HeldUp):
        workers = {name: replace(w, heard=w.heard + event.seconds) for name, w in state.workers.items()}
        since = None if state.adopting_since is None else state.adopting_since + event.seconds
        return replace(state, workers=workers, adopting_since=since, last_change=state.last_change + event.seconds)
    if isinstance(event, HeardAll):
        return _heard(state, event, now)
    if isinstance(event, Chosen):
        return _chosen(state, event.choice)
    if isinstance(event, Connected):
        return _connected(state, event, now)
    worker = state.workers.get(event.worker)
    if worker is None or worker.connection != event.connection:
        return state
    worker = replace(worker, heard=now)
    if isinstance(event, Heard):
        known = any(generation.id == event.generation for generation in state.chain)
        return state.with_worker(worker).progressed(now, step=event.step if known else -1)
    return _said(state.with_worker(worker), worker, event, now)


def _chosen(state: State, choice: Choice) -> State:
    """Take in a choice; the first one counts, for good."""
    if not state.is_choosing:
        return state
    return replace(state, choice=choice).telling(Kind.CHOSEN, f"{choice.type}, because {choice.why}")


def _heard(state: State, event: HeardAll, now: float) -> State:
    workers, step = dict(state.workers), -1
    known = {generation.id for generation in state.chain}
    for heard, at in event.heard:
        worker = workers.get(heard.worker)
        if worker is not None and worker.connection == heard.connection:
            workers[worker.name] = replace(worker, heard=max(worker.heard, at))
            step = max(step, heard.step if heard.generation in known else -1)
    return replace(state, workers=workers).progressed(now, step=step)


def _believable(number: int) -> int:
    """Return a generation number that a worker claims; no job gets so far, and the next one must be a number, too."""
    return number if number < _HIGHEST_NUMBER else 0


def refusal(state: State, worker: str, attempt: int) -> str | None:
    """Return why a connection of this attempt is not wanted, or None."""
    newest = state.attempts.get(worker, attempt)
    if attempt >= newest:
        return None
    return f"attempt {attempt} of {worker} is out of date: attempt {newest} has taken its place, so this one should end"


def _said(state: State, worker: Worker, event: WorkerEvent, now: float) -> State:
    match event:
        case Joined():
            return _joined(state, worker, event.join, now)
        case Built() | Entered():
            return _advanced(state, worker, event, now)
        case Broken():
            return _broken(state, worker, event, now)
        case Leaving():
            return state if worker.leaving else _leaving(state, worker, event.why)
        case Finished():
            return state.with_worker(replace(worker, done=event.done)).progressed(now, round_=event.done.round)
        case Failed() | Closed():
            return _ended(state, worker, event, now)
        case Connected() | Heard():
            return state


def _connected(state: State, event: Connected, now: float) -> State:
    sentence = refusal(state, event.worker, event.attempt)
    if sentence is not None:
        refused = state.wanting(Refuse(event.worker, event.connection, sentence))
        return refused.telling(Kind.REFUSED, sentence, event.worker)
    state = replace(state, attempts={**state.attempts, event.worker: event.attempt})
    old = state.workers.get(event.worker)
    new = Worker(event.worker, event.attempt, event.connection, heard=now)
    if old is None:
        return state.with_worker(new)
    state = state.wanting(Disconnect(event.worker, old.connection))
    if old.attempt == event.attempt:
        # The same process by a new connection: it is not lost, and says next where it is.
        return state.with_worker(replace(old, connection=event.connection, heard=now, released=False))
    return lost(state, old, f"attempt {event.attempt} has taken the place of attempt {old.attempt}", now).with_worker(
        new
    )


def lost(state: State, worker: Worker, why: str, now: float) -> State:
    """Return the state without a worker, and tell people if it took part."""
    took_part = worker.active and state.is_member(worker)
    state = state.without_worker(worker.name)
    if worker.active:
        state = replace(state, last_change=now)
    if took_part and state.outcome is None:
        state = state.telling(Kind.LOST, f"{worker.name} is lost: {why}", worker.name)
    if worker.active and state.outcome is None and not any(w.active for w in state.workers.values()):
        state = state.telling(Kind.GONE, "all workers are gone")
    return state


def _joined(state: State, worker: Worker, join: messages.Join, now: float) -> State:
    named = 0 if join.generation is None else join.generation.number
    state = replace(state, highest=max(state.highest, _believable(join.last_generation), _believable(named)))
    known = worker.joined is not None
    worker = replace(
        worker,
        device=join.device,
        address=join.address,
        port=join.port,
        joined=worker.joined if known else now,
    )
    state = state if known else replace(state, last_change=now)
    if join.generation is not None and _goes_on(state, worker, join.generation):
        return _back(state, worker, join.generation, join.round, now)
    if join.generation is not None and join.members and not state.chain:
        claims = {**state.claims, worker.name: Claim(worker.attempt, join)}
        since = now if state.adopting_since is None else state.adopting_since
        return replace(state, claims=claims, adopting_since=since).with_worker(worker)
    claims = {name: claim for name, claim in state.claims.items() if name != worker.name}
    state = replace(state, claims=claims)
    worker = replace(worker, holds=False, done=None, after=state.newest.number if state.newest else 0)
    return state.with_worker(worker).telling(Kind.JOINED, f"{worker.name} asks to take part", worker.name)


def _goes_on(state: State, worker: Worker, named: GenerationId) -> bool:
    """Tell whether a worker that comes back is still a member: nothing has been formed because of its absence."""
    at = next((k for k, generation in enumerate(state.chain) if generation.id == named), None)
    if at is None or state.chain[at].member(worker.name, worker.attempt) is None or worker.after >= named.number:
        return False
    return all(
        later.change is Change.PLANNED or later.member(worker.name, worker.attempt) is not None
        for later in state.chain[at + 1 :]
    )


def _back(state: State, worker: Worker, named: GenerationId, round_: int | None, now: float) -> State:
    state = _entered(state, replace(worker, holds=True), named, round_ or 0, now)
    newest = state.newest
    if newest is None or newest.id == named:
        return state
    return state.wanting(Assign(worker.name, newest))  # it may have missed it


def _advanced(state: State, worker: Worker, event: Built | Entered, now: float) -> State:
    generation = next((g for g in state.chain if g.id == event.generation), None)
    if generation is None:
        return _unknown(state, worker, event, now)
    member = generation.member(worker.name, worker.attempt)
    if member is None or worker.after >= generation.number:
        return state
    if isinstance(event, Entered):
        return _entered(state, worker, event.generation, event.round, now)
    return state.with_generation(replace(generation, built=generation.built | {worker.name}))


def _unknown(state: State, worker: Worker, event: Built | Entered | Broken, now: float) -> State:
    """Go beyond a generation that another coordinator formed: its members are on their way, and not known here."""
    named = event.generation
    state = replace(state, highest=max(state.highest, _believable(named.number)))
    if not state.chain:
        return _before_adoption(state, worker, event)
    oldest = state.chain[0]
    if named.nonce == state.nonce or named.number <= oldest.number or oldest.broken is not None or not worker.holds:
        return state
    why = f"{worker.name} is in generation {named}, which is not known here"
    return state.with_generation(replace(oldest, broken=now, why_broken=why))


def _before_adoption(state: State, worker: Worker, event: Built | Entered | Broken) -> State:
    """Hang up on a worker that has gone on since it joined: it comes back and says where it is now, and with whom."""
    claim = state.claims.get(worker.name)
    if claim is not None and claim.join.generation == event.generation:
        broken = claim.broken or isinstance(event, Broken)
        return replace(state, claims={**state.claims, worker.name: replace(claim, broken=broken)})
    if not isinstance(event, Entered):
        return state
    claims = {name: claim for name, claim in state.claims.items() if name != worker.name}
    state = replace(state, claims=claims).without_worker(worker.name)
    return state.wanting(Disconnect(worker.name, worker.connection))


def _entered(state: State, worker: Worker, named: GenerationId, round_: int, now: float) -> State:
    at, before = next((k, g) for k, g in enumerate(state.chain) if g.id == named)
    generation = replace(
        before,
        built=before.built | {worker.name},
        entered=before.entered | {worker.name},
        first_entered=now if before.first_entered is None else before.first_entered,
    )
    state = state.with_worker(replace(worker, holds=True)).with_generation(generation)
    # The first who enters makes it the standing one; what came before it has no members any more.
    state = replace(state, chain=state.chain[at:])
    if generation.is_entered and len(state.chain[0].entered) > len(before.entered):
        state = _all_entered(state, generation)
    return state.progressed(now, round_=round_)


def _all_entered(state: State, generation: Generation) -> State:
    """From now on its members commit rounds that nobody else has."""
    members = set(generation.names)
    workers = {n: w if n in members or not w.holds else replace(w, holds=False) for n, w in state.workers.items()}
    state = replace(state, workers=workers)
    if generation.change is Change.PLANNED:
        state = replace(state, failed_plans=0, planned_not_before=0.0)
    sentence = f"generation {generation.number} was entered by all its {len(members)} members"
    return state.telling(Kind.ENTERED, sentence)


def _broken(state: State, worker: Worker, event: Broken, now: float) -> State:
    generation = next((g for g in state.chain if g.id == event.generation), None)
    if generation is None:
        return _unknown(state, worker, event, now)
    if generation.broken is not None or event.worker not in generation.names:
        return state
    return state.with_generation(replace(generation, broken=now, why_broken=f"{event.worker}: {event.why}"))


def _leaving(state: State, worker: Worker, why: str) -> State:
    told = state.with_worker(replace(worker, leaving=True))
    return told.telling(Kind.LEFT, f"{worker.name} wants to leave: {why}", worker.name)


def _ended(state: State, worker: Worker, event: Failed | Closed, now: float) -> State:
    if isinstance(event, Closed):
        return lost(state, worker, "its connection closed", now)
    state = state.telling(Kind.FAILED, f"{worker.name} failed: {event.error}", worker.name)
    if event.everywhere and state.outcome is None:
        outcome = Outcome(complete=False, why=event.error)
        state = replace(state, outcome=outcome).telling(Kind.JOB_FAILED, event.error, worker.name)
        return state.with_worker(worker)
    return lost(state, worker, "its script failed", now)
