"""What the operator remembers of a job. What must outlive it is in the job's status, and is read back from there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from omnilearn_core.api.job import OmniLearnJob
from omnilearn_core.api.status import JobStatus
from omnilearn_core.endings import Meaning

from .endings import Ending
from .observed import Pod

OBJECTS = "Service, NetworkPolicy and PodGroup"
"""Under which name the check of a job's other objects is kept."""


@dataclass(frozen=True, slots=True)
class Check:
    """What the API server has said of a template."""

    invalid: str = ""
    """Why it will never be taken."""

    refused: str = ""
    """Why it is not taken now."""

    again: datetime | None = None
    """When to ask again, if it is worth it."""

    @property
    def good(self) -> bool:
        """True if it is taken."""
        return not self.invalid and not self.refused

    def due(self, now: datetime) -> bool:
        """Tell whether it is time to ask again."""
        return self.again is not None and now >= self.again


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a job ended, as its coordinator or its pods say."""

    complete: bool
    why: str
    at: datetime
    workers: frozenset[str] = frozenset()
    """The workers that took part in the end; none if nobody knows."""


@dataclass(frozen=True, slots=True)
class Delay:
    """Why a pod is not started, as events about it say."""

    why: str
    asked: datetime
    times: int = 1
    """How often was asked."""


@dataclass(frozen=True, slots=True)
class Book:
    """All that a decision about a job depends on, beyond the job and its pods."""

    since: datetime
    """When this operator first saw the job."""

    heard: datetime | None = None
    """When a coordinator last knew who trains: a new one, after a change of the job, has to hear it first."""

    status: JobStatus = field(default_factory=JobStatus)
    """The status that was written last."""

    unsure: bool = False
    """What was written last may or may not be there: the answer was an error."""

    written: datetime | None = None
    """When that was, or was tried."""

    failures: int = 0
    preemptions: int = 0
    attempts: Mapping[str, int] = field(default_factory=dict)
    """The newest attempt of each worker whose end was counted."""

    inherited: bool = False
    """An earlier operator has minded this job: it may have had pods that nobody saw end."""

    met: frozenset[str] = frozenset()
    """The workers that this operator has minded."""

    ended: Mapping[str, datetime] = field(default_factory=dict)
    """When this operator counted the last end of each worker: a node's clock may be hours ahead or behind."""

    let_go: frozenset[str] = frozenset()
    """Pods, by UID, that this operator has deleted: their end is nobody's failure and no preemption."""

    replaced: frozenset[str] = frozenset()
    """Workers whose pod of a former template this operator has deleted, and who have not trained since."""

    last_failure: str = ""
    late_failure: str = ""
    """What a worker did that failed after all samples were committed."""

    started: datetime | None = None
    """When the first step was committed."""

    verdict: Verdict | None = None
    checks: Mapping[str, Check] = field(default_factory=dict)
    """What is known of each template, by its hash."""

    delays: Mapping[str, Delay] = field(default_factory=dict)
    """What was found out about pods that their nodes do not start, by UID."""

    applied: int | None = None
    """The version of the spec for which Service, NetworkPolicy and PodGroup were applied."""

    applied_at: datetime | None = None
    """When that was."""

    annotated: datetime | None = None
    """When shares were last written to pods."""

    settled: int = 0
    """The plan of which was last told that it has settled."""

    skipped: int = 0
    """How many steps were skipped when that was last told."""

    skipped_told: datetime | None = None

    def is_counted(self, worker: str, attempt: int) -> bool:
        """Tell whether the end of an attempt was counted."""
        return attempt <= self.attempts.get(worker, -1)

    def has_let_go(self, pod: Pod) -> bool:
        """Tell whether a pod ends because this operator has deleted it, not by itself before that could be done."""
        return pod.uid in self.let_go and (pod.leaving or pod.ended is None)

    def as_let_go(self, pod: Pod) -> Pod:
        """Return a pod as it will be seen, if this operator has deleted it: as one that leaves."""
        return replace(pod, leaving=True) if self.has_let_go(pod) else pod

    def missed(self, wanted: Collection[str], there: Collection[str]) -> list[str]:
        """Return the workers that trained when the status was written last, and whose pod is gone: nobody saw it go."""
        gone = frozenset(wanted) - self.met - frozenset(there) if self.inherited else frozenset()
        last = {each.worker: each.attempt for each in self.status.members if each.attempt is not None}
        return sorted(name for name in gone & last.keys() if not self.is_counted(name, last[name]))

    def meeting(self, wanted: Collection[str], there: Collection[str]) -> Book:
        """Return the book with the workers that are minded from now on; ``there`` have a pod whose end will be counted.

        Of the others, an earlier operator may have had an attempt that was gone before anybody saw its end: the number
        of that is passed over, and if it trained, it was taken away.
        """
        new = frozenset(wanted) - self.met
        unseen = new - frozenset(there) if self.inherited else frozenset()
        attempts = {**self.attempts, **{name: self.attempts.get(name, -1) + 1 for name in unseen}}
        preemptions = self.preemptions + len(self.missed(wanted, there))
        return replace(self, attempts=attempts, preemptions=preemptions, met=self.met | new)

    def counting(self, endings: Iterable[Ending], now: datetime) -> Book:
        """Return the book with the ends of some pods in it."""
        book = self
        for ending in endings:
            pod = ending.pod
            attempts = {**book.attempts, pod.worker: max(pod.attempt, book.attempts.get(pod.worker, -1))}
            book = replace(book, attempts=attempts, ended={**book.ended, pod.worker: now})
            if self.has_let_go(pod):
                continue
            if ending.meaning is Meaning.PREEMPTED:
                book = replace(book, preemptions=book.preemptions + 1)
            elif ending.meaning is Meaning.FAILED:
                book = book._with_failure(ending)
            if ending.fatal and book.verdict is None:
                book = replace(book, verdict=Verdict(False, ending.with_words, now))
        return book

    def letting_go(self, uids: Iterable[str], there: Iterable[str]) -> Book:
        """Return the book with pods that are deleted; of those that are no longer there nothing is remembered."""
        known = frozenset(there)
        delays = {uid: delay for uid, delay in self.delays.items() if uid in known}
        return replace(self, let_go=(self.let_go | frozenset(uids)) & known, delays=delays)

    def replacing(self, workers: Iterable[str], away: Collection[str]) -> Book:
        """Return the book with workers that get another template; of earlier ones, those stay that are ``away``."""
        return replace(self, replaced=(self.replaced & frozenset(away)) | frozenset(workers))

    def _with_failure(self, ending: Ending) -> Book:
        verdict = self.verdict
        if verdict is None:
            return replace(self, failures=self.failures + 1, last_failure=ending.with_words)
        took_part = not verdict.workers or ending.pod.worker in verdict.workers
        return replace(self, late_failure=ending.with_words) if took_part else self


def opened(job: OmniLearnJob, now: datetime) -> Book:
    """Return the book of a job that this operator sees for the first time."""
    status = job.status or JobStatus()
    counts = status.workers
    return Book(
        since=now,
        inherited=job.status is not None,
        status=status,
        failures=counts.failures if counts else 0,
        preemptions=counts.preemptions if counts else 0,
        attempts=dict(status.attempts),
        started=status.start_time,
    )
