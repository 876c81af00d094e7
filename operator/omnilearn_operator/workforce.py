"""Which pods a job should have: from the job and the pods that are there to pods to create and to delete. Pure.

Every worker has at most one pod that trains. A pod that ended is replaced by the worker's next attempt; what its end
counts as is decided here, too, and told once for each pod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from omnilearn_core.api import names
from omnilearn_core.api.job import OmniLearnJob
from omnilearn_core.endings import Meaning, back_off

from .manifests.pods import Worker, template_hash
from .observed import Pod

# Exit codes of a process that was told to go: 128 + SIGTERM
_TERMINATED = 143
_KILLED = 137

_FIRST_SECONDS, _LONGEST_SECONDS = 1.0, 60.0


@dataclass(frozen=True, slots=True)
class Ending:
    """A pod that ended, and what that counts as."""

    pod: Pod
    meaning: Meaning
    sentence: str

    @property
    def with_words(self) -> str:
        """The sentence, with the end of what the script has written."""
        words = "" if self.pod.ended is None else self.pod.ended.message.strip()
        return f"{self.sentence}: {words}" if words and not words.startswith("{") else self.sentence


@dataclass(frozen=True, slots=True)
class Create:
    """A pod to create."""

    name: str
    """The worker's."""

    worker: Worker
    attempt: int
    after: float = 0.0
    """Seconds to wait since the last attempt ended."""


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


def wanted_workers(job: OmniLearnJob) -> dict[str, Worker]:
    """Return the workers that a job should have now, by name: groups are filled in order up to maxWorkers."""
    if job.spec.suspend:
        return {}
    everybody = [Worker(group, index) for group in job.spec.workers for index in range(group.replicas)]
    return {
        names.worker_name(job.metadata.name, worker.group.name, worker.index): worker
        for worker in everybody[: job.spec.most]
    }


def staff(
    job: OmniLearnJob, pods: Sequence[Pod], counted: frozenset[str], *, finished: bool, attempts: Mapping[str, int]
) -> Workforce:
    """Decide about all pods of a job.

    ``counted`` are the pods, by UID, whose endings were told before; ``attempts`` the highest attempt of each worker
    that is known from elsewhere, so that a number is never used twice; ``finished`` if the job has ended.
    """
    wanted = {} if finished else wanted_workers(job)
    by_worker: dict[str, list[Pod]] = {}
    for pod in sorted(pods, key=lambda each: each.attempt):
        by_worker.setdefault(pod.worker, []).append(pod)
    news = [_ending(pod, finished=finished) for pod in pods if pod.over and pod.uid not in counted]
    create, delete, outdated = [], _unwanted(pods, wanted, finished=finished), []
    hashes = {group.name: template_hash(group) for group in job.spec.workers}
    for name, worker in wanted.items():
        own = by_worker.get(name, [])
        delete += [Delete(each.name, each.uid, "a newer attempt has replaced it") for each in own[:-1] if not each.over]
        newest = own[-1] if own else None
        if newest is None or newest.over:
            attempt = max(newest.attempt if newest else -1, attempts.get(name, -1)) + 1
            create.append(Create(name, worker, attempt, _pause(own)))
        elif newest.template != hashes[worker.group.name]:
            successor = Create(name, worker, newest.attempt + 1)
            outdated.append((Delete(newest.name, newest.uid, "the template has changed"), successor))
    return Workforce(tuple(create), tuple(delete), tuple(news), tuple(outdated))


def _unwanted(pods: Sequence[Pod], wanted: Mapping[str, Worker], *, finished: bool) -> list[Delete]:
    why = "the job has ended" if finished else "the worker is no longer wanted"
    # What has ended stays for its log, until the job goes.
    return [Delete(pod.name, pod.uid, why) for pod in pods if pod.worker not in wanted and not pod.over]


def _ending(pod: Pod, *, finished: bool) -> Ending:
    ended = pod.ended
    if pod.disrupted:
        return Ending(pod, Meaning.PREEMPTED, f"{pod.worker} was taken away: {pod.disrupted}")
    if ended is None or ended.code == _TERMINATED or (pod.leaving and ended.code == _KILLED):
        return Ending(pod, Meaning.PREEMPTED, f"{pod.worker} was told to go")
    if ended.code == names.START_ANEW_EXIT:
        return Ending(pod, Meaning.PREEMPTED, f"{pod.worker} starts anew")
    if ended.code < 0:
        return Ending(pod, Meaning.PREEMPTED, f"{pod.worker} was not run: {ended.reason or 'the cluster says not why'}")
    if ended.code == 0 and finished:
        return Ending(pod, Meaning.FINISHED, f"{pod.worker} has finished")
    return Ending(pod, Meaning.FAILED, f"{pod.worker} {_how(ended.code, ended.reason)}")


def _how(code: int, reason: str) -> str:
    if code == 0:
        return "ended before the job was complete"
    known = f" ({reason})" if reason not in ("", "Error") else ""
    return f"exited with {code}{known}"


def _came_to_nothing(pod: Pod) -> bool:
    """Tell whether a pod failed, was not run by its node, or could not take part."""
    again = pod.ended is not None and (pod.ended.code < 0 or pod.ended.code == names.START_ANEW_EXIT)
    return again or _ending(pod, finished=False).meaning is Meaning.FAILED


def _pause(attempts: Sequence[Pod]) -> float:
    """Return how long to wait before the next attempt: longer with every one in a row that came to nothing."""
    failures = 0
    for pod in reversed(attempts):
        if not _came_to_nothing(pod):
            break
        failures += 1
    return back_off(failures, _FIRST_SECONDS, _LONGEST_SECONDS) if failures else 0.0
