"""Which pods a job should have: from its workers and the pods that are there to pods to create and to delete. Pure.

Every worker has at most one pod that trains. A pod that ended is replaced by the worker's next attempt, and its end is
told once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from omnilearn_core.api.job import OmniLearnJob

from .endings import Ending, ending_of, memory_bound_after, pause_after
from .manifests.pods import Worker, template_hash
from .observed import Pod

# Of each worker, so many ended pods stay for their logs: as many as make the longest pause before its next attempt.
_MOST_ENDED = 7


@dataclass(frozen=True, slots=True)
class Create:
    """A pod to create."""

    name: str
    """The worker's."""

    worker: Worker
    attempt: int
    after: float = 0.0
    """Seconds to wait since the last attempt ended."""

    memory_bound: int | None = None
    """How many samples it may compute at once, as earlier attempts have learned; 0 to forget what they learned."""


@dataclass(frozen=True, slots=True)
class Delete:
    """A pod to delete."""

    name: str
    uid: str
    why: str


@dataclass(frozen=True, slots=True)
class Workforce:
    """What is to be done about a job's pods, and which endings are news."""

    create: tuple[Create, ...]
    delete: tuple[Delete, ...]
    endings: tuple[Ending, ...]
    outdated: tuple[tuple[Delete, Create], ...] = ()
    """Pods of a former template, each with what takes its place, for whoever rolls them out one by one."""


def staff(
    job: OmniLearnJob,
    wanted: Mapping[str, Worker],
    pods: Sequence[Pod],
    counted: frozenset[str],
    *,
    finished: bool,
    attempts: Mapping[str, int],
) -> Workforce:
    """Decide about all pods of a job, which should have the ``wanted`` workers.

    ``counted`` are the pods, by UID, whose endings were told before; ``attempts`` the highest attempt of each worker
    that is known from elsewhere, so that a number is never used twice; ``finished`` if the job has ended.
    """
    by_worker: dict[str, list[Pod]] = {}
    for pod in sorted(pods, key=lambda each: each.attempt):
        by_worker.setdefault(pod.worker, []).append(pod)
    fatal = job.spec.restart.fail_on_exit_codes or ()
    news = [ending_of(pod, finished=finished, fatal=fatal) for pod in pods if pod.over and pod.uid not in counted]
    create, delete, outdated = [], _unwanted(pods, wanted, finished=finished), []
    for own in by_worker.values():
        delete += _too_many([pod for pod in own if pod.ended is not None and pod.uid in counted])
    hashes = {group.name: template_hash(group) for group in job.spec.workers}
    for name, worker in wanted.items():
        own = by_worker.get(name, [])
        delete += [Delete(each.name, each.uid, "a newer attempt has replaced it") for each in own[:-1] if not each.over]
        newest = own[-1] if own else None
        if newest is None or newest.over:
            create.append(_next(name, worker, own, attempts.get(name, -1), hashes[worker.group.name]))
        elif newest.template != hashes[worker.group.name]:
            successor = Create(name, worker, newest.attempt + 1, memory_bound=0)
            outdated.append((Delete(newest.name, newest.uid, "the template has changed"), successor))
    return Workforce(tuple(create), tuple(delete), tuple(news), tuple(outdated))


def _next(name: str, worker: Worker, own: Sequence[Pod], known: int, hash_: str) -> Create:
    """Return the next attempt of a worker; under another template, earlier ones say nothing about its memory."""
    if not own:
        return Create(name, worker, known + 1)
    newest = own[-1]
    bound = memory_bound_after(newest) if newest.template == hash_ else 0
    return Create(name, worker, max(newest.attempt, known) + 1, pause_after(own), bound)


def _unwanted(pods: Sequence[Pod], wanted: Mapping[str, Worker], *, finished: bool) -> list[Delete]:
    why = "the job has ended" if finished else "the worker is no longer wanted"
    # What has ended stays for its log.
    return [Delete(pod.name, pod.uid, why) for pod in pods if pod.worker not in wanted and not pod.over]


def _too_many(ended: Sequence[Pod]) -> list[Delete]:
    """Return which of a worker's ended pods go, in the order of their attempts."""
    goes = [pod for pod in ended[:-_MOST_ENDED] if not pod.leaving]
    return [Delete(pod.name, pod.uid, "newer attempts have ended since") for pod in goes]
