"""What is to be done about a job: from the job, its pods, its coordinator's view and the book to a decision. Pure.

Level-triggered: it looks at what is, not at what has happened, so that nothing is lost while nobody looks.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime

from omnilearn_coordinator.view import JobView
from omnilearn_core.api.job import CleanPods, GangScheduler, OmniLearnJob
from omnilearn_core.api.names import ConditionType, Reason
from omnilearn_core.api.status import ConditionStatus, JobStatus

from . import delays, notes, rollouts, unheard, verdicts
from .book import OBJECTS, Book, Check
from .conditions import Facts, Standing, facts_of
from .hiring import Hiring, due, hire
from .manifests.pods import Worker, template_hash
from .notes import Note
from .observed import Assigned, Pod
from .rollouts import Crew
from .roster import roster, uses_of
from .status import Seen, due_in, member_count, members_in, status_of, suspended_seconds
from .workforce import Create, Delete, Workforce, staff

_RESYNC_SECONDS = 45.0
_SETTLED_SECONDS = 20.0
_EXPIRE_AGAIN_SECONDS = 5.0
# Pods that have ended, or whose job has, may have to go: when that is written down, and of our own writes nobody tells.
_NEXT_SECONDS = 1.0
# A Service or a policy that somebody deletes is missed by nobody at once.
_RESTORE_RESYNCS = 5
_FALSE = ConditionStatus.FALSE


@dataclass(frozen=True, slots=True)
class Annotate:
    """What a pod's annotations should say."""

    pod: Pod
    assigned: Assigned | None
    authorities: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done about a job, in the order of the fields."""

    book: Book
    status: JobStatus | None = None
    """The status to write."""

    apply: bool = False
    """Service, NetworkPolicy and PodGroup are to be applied."""

    check: tuple[Create, ...] = ()
    """Pods to try without creating them: one for each template that nothing is known of."""

    delete: tuple[Delete, ...] = ()
    create: tuple[Create, ...] = ()
    annotate: tuple[Annotate, ...] = ()
    ask: tuple[Pod, ...] = ()
    """Pods whose events are to be read: their nodes do not start them."""

    tell: tuple[Note, ...] = ()
    expire: bool = False
    """The job has ended long ago and is to be deleted."""

    coordinate: bool = True
    """The job should have a coordinator."""

    again: float = _RESYNC_SECONDS
    """Look again in so many seconds at the latest."""


def decide(seen: Seen, book: Book, authorities: str) -> Decision:
    """Decide about a job."""
    seen = unheard.without_lost(seen)
    book = verdicts.with_verdict(seen, _with_start(seen, book))
    job = seen.job.model_copy(update={"status": book.status})
    over = book.verdict is not None or verdicts.has_ended(book.status)
    counted = frozenset(pod.uid for pod in seen.pods if book.is_counted(pod.worker, pod.attempt))
    wanted = {} if over else _wanted(job, seen, book)
    there = [pod.worker for pod in seen.pods if pod.uid not in counted]
    missed, book = book.missed(wanted, there), book.meeting(wanted, there)
    work = staff(job, wanted, seen.pods, counted, finished=over, attempts=book.attempts)
    book = book.letting_go(_let_go(seen, wanted), (pod.uid for pod in seen.pods)).counting(work.endings, seen.now)
    crew = rollouts.crew_of(seen, book, wanted, work.outdated)
    facts = facts_of(job, _standing(seen, book, work, crew))
    ended = any(facts[kind].holds for kind in (ConditionType.COMPLETE, ConditionType.FAILED) if kind in facts)
    hiring = Hiring() if over or ended else hire(seen, book, work, crew)
    delete = (*_to_delete(seen, work, over=over, ended=ended), *(goes for goes, _ in hiring.replace))
    told = [each for each in work.endings if not book.has_let_go(each.pod)]
    book = book.letting_go((each.uid for each in delete), (pod.uid for pod in seen.pods))
    question = delays.next_question(seen.pods, book, seen.now, seen.pace.start)
    book = book.replacing((comes.name for _, comes in hiring.replace), crew.wanted - crew.training)
    annotate = () if ended else _annotations(seen, book, authorities)
    decision = Decision(
        book=replace(book, annotated=seen.now) if annotate else book,
        apply=_needs_objects(job, hiring, book) or (not (over or ended) and _may_have_lost_objects(seen, book)),
        check=hiring.check,
        create=hiring.create,
        delete=delete,
        annotate=annotate,
        ask=() if over else delays.to_ask(seen.pods, book, seen.now, seen.pace.start),
        tell=(*notes.of_missed(missed), *notes.of_endings(told)),
        coordinate=not (ended or job.spec.suspend) or any(pod.running for pod in seen.pods),
        again=min(
            _RESYNC_SECONDS,
            hiring.again,
            question or _RESYNC_SECONDS,
            _NEXT_SECONDS if work.endings or (ended and not over) else _RESYNC_SECONDS,
        ),
    )
    return _expiring(_skipping(_settling(_writing(decision, seen, facts), seen), seen), seen)


def _wanted(job: OmniLearnJob, seen: Seen, book: Book) -> dict[str, Worker]:
    """Return the workers that the job should have."""
    # Whoever was let go has no place, also where its pod was not seen to go yet: else another one would go, too.
    pods = [book.as_let_go(pod) for pod in seen.pods]
    return roster(job, pods, uses_of(job, book.status.members, members_in(seen.view)))


def _let_go(seen: Seen, wanted: Collection[str]) -> list[str]:
    """Return the pods that go because the spec has changed: whoever deleted them, it was on our behalf."""
    hashes = {template_hash(group) for group in seen.job.spec.workers}
    goes = [pod for pod in seen.pods if pod.leaving and (pod.worker not in wanted or pod.template not in hashes)]
    return [pod.uid for pod in goes]


def _needs_objects(job: OmniLearnJob, hiring: Hiring, book: Book) -> bool:
    """Tell whether Service and others are needed now; a group, before a pod that names it is tried."""
    needed = hiring.create or (hiring.check and job.spec.gang_scheduler is not GangScheduler.NONE)
    return bool(needed) and book.applied != (job.metadata.generation or 0)


def _may_have_lost_objects(seen: Seen, book: Book) -> bool:
    """Tell whether it is time to make Service and others as they should be, because nobody watches them."""
    known = book.checks.get(OBJECTS, Check())
    late = (seen.now - (book.applied_at or book.since)).total_seconds() >= _RESTORE_RESYNCS * seen.pace.resync
    return late and (known.good or known.due(seen.now)) and any(not pod.over for pod in seen.pods)


def _with_start(seen: Seen, book: Book) -> Book:
    if seen.view is not None and seen.view.generation is not None:
        book = replace(book, heard=seen.now)
    committed = seen.view is not None and seen.view.step > 0
    return replace(book, started=seen.now) if committed and book.started is None else book


def _standing(seen: Seen, book: Book, work: Workforce, crew: Crew) -> Standing:
    verdict = book.verdict
    pauses = [(create.name, due(create, seen, book)) for create in work.create]
    asked = [*work.create, *(comes for _, comes in work.outdated)]
    # What was said of a pod that nobody wants any more is no news.
    hashes = {template_hash(create.worker.group) for create in asked} | ({OBJECTS} if asked else set())
    checks = [check for name, check in book.checks.items() if name in hashes]
    return Standing(
        now=seen.now,
        since=_since(seen, book),
        started=book.started,
        suspended=suspended_seconds(seen, book),
        members=member_count(seen, book),
        pods=delays.explained(seen.pods, book),
        failures=book.failures,
        last_failure=book.last_failure,
        complete=verdicts.completed(seen, book),
        finishing=verdict is not None and verdict.complete,
        failed=verdicts.failed(book),
        bad_template=next((each.invalid for each in checks if each.invalid), ""),
        refused=next((each.refused for each in checks if each.refused), ""),
        pauses=tuple((name, until) for name, until in pauses if until > seen.now),
        rollout=rollouts.sentence(seen.job, crew, work.outdated),
    )


def _since(seen: Seen, book: Book) -> datetime:
    """Return since when the job could have got its workers: no operator, no pods."""
    suspended = [each for each in book.status.conditions if each.type == ConditionType.SUSPENDED]
    if suspended and suspended[0].status is ConditionStatus.TRUE:
        return seen.now
    times = {each.type: each.last_transition_time for each in book.status.conditions if each.status is _FALSE}
    return times.get(ConditionType.SUSPENDED) or times.get(ConditionType.READY) or book.since


def _to_delete(seen: Seen, work: Workforce, *, over: bool, ended: bool) -> tuple[Delete, ...]:
    if not over:
        return work.delete
    if not ended:
        return ()  # they are about to end by themselves
    policy = seen.job.spec.clean_pods
    goes = [pod for pod in seen.pods if not pod.leaving and _goes(pod, policy)]
    return tuple(Delete(pod.name, pod.uid, "the job has ended") for pod in goes)


def _goes(pod: Pod, policy: CleanPods) -> bool:
    match policy:
        case CleanPods.ALL:
            return True
        case CleanPods.RUNNING:
            return pod.alive
        case CleanPods.NONE:
            return not pod.over


def _annotations(seen: Seen, book: Book, authorities: str) -> tuple[Annotate, ...]:
    """Return the pods whose annotations do not say what is so; shares that only move a little can wait."""
    shares = _shares(seen.view)
    soon = book.annotated is None or (seen.now - book.annotated).total_seconds() >= seen.pace.shares
    found = []
    for pod in (each for each in seen.pods if not each.over):
        before, now = pod.assigned, shares.get((pod.worker, pod.attempt), pod.assigned)
        news = _generation(before) != _generation(now) or (authorities and pod.authorities != authorities)
        moved = before is not None and now is not None and before.share != now.share
        if news or (moved and soon):
            found.append(Annotate(pod, now, authorities))
    return tuple(found)


def _generation(assigned: Assigned | None) -> int | None:
    return None if assigned is None else assigned.generation


def _shares(view: JobView | None) -> dict[tuple[str, int], Assigned]:
    if view is None or view.generation is None or view.plan is None:
        return {}
    generation, plan = view.generation, view.plan
    return {(each.worker, each.attempt): Assigned(each.share, generation, plan) for each in members_in(view)}


def _writing(decision: Decision, seen: Seen, facts: Facts) -> Decision:
    book = decision.book
    status = status_of(seen, book, facts)
    wait = due_in(book.status, status, book.written, seen, unsure=book.unsure)
    if wait is None:
        return decision
    if wait > 0:
        # What has ended is known to whoever comes next before there are other pods, or none.
        ahead = status.attempts != book.status.attempts
        ends = status.completion_time != book.status.completion_time
        create, delete = () if ahead else decision.create, () if ends else decision.delete
        return replace(decision, create=create, delete=delete, again=min(decision.again, wait))
    return replace(decision, status=status, tell=(*decision.tell, *notes.of_facts(book.status, facts)))


def _settling(decision: Decision, seen: Seen) -> Decision:
    """Return the decision with the news that the shares have settled, once for each plan."""
    view, book = seen.view, decision.book
    if view is None or not view.decisions or not members_in(view) or view.plan in (None, book.settled):
        return decision
    age = seen.now.timestamp() - view.decisions[-1].time
    if age < _SETTLED_SECONDS:
        return replace(decision, again=min(decision.again, _SETTLED_SECONDS - age))
    shares = ", ".join(f"{each.worker} {each.share}" for each in members_in(view)[:8])
    note = Note(Reason.CONVERGED, f"the shares have settled: {shares}; imbalance {100 * view.imbalance:.0f} %")
    return replace(decision, book=replace(book, settled=view.plan), tell=(*decision.tell, note))


def _skipping(decision: Decision, seen: Seen) -> Decision:
    """Return the decision with the news that steps were skipped, if there are more of them: now and then."""
    view, book = seen.view, decision.book
    if view is None or view.step == 0 or view.skipped == book.skipped:
        return decision
    if view.skipped < book.skipped:  # it has gone back to a checkpoint
        return replace(decision, book=replace(book, skipped=view.skipped))
    if book.skipped_told is not None and (seen.now - book.skipped_told).total_seconds() < seen.pace.plans:
        return decision
    count = "1 step was" if view.skipped == 1 else f"{view.skipped} steps were"
    note = Note(Reason.STEP_SKIPPED, f"{count} skipped so far: the gradient was not finite", warning=True)
    told = replace(book, skipped=view.skipped, skipped_told=seen.now)
    return replace(decision, book=told, tell=(*decision.tell, note))


def _expiring(decision: Decision, seen: Seen) -> Decision:
    """Return the decision to delete a job that was to be kept only for a while after its end."""
    kept, status = seen.job.spec.ttl_seconds_after_finished, decision.book.status
    if kept is None or status.completion_time is None or not verdicts.has_ended(status):
        return decision
    left = kept - (seen.now - status.completion_time).total_seconds()
    again = _EXPIRE_AGAIN_SECONDS if left <= 0 else min(decision.again, left)
    return replace(decision, expire=left <= 0, again=again)
