"""Whether a job has come to its end: by its coordinator, by what its pods left, by its status. Pure."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

from omnilearn_core.api.names import ConditionType
from omnilearn_core.api.status import ConditionStatus, JobStatus

from .book import Book, Verdict
from .observed import Pod
from .status import Seen

# How long workers may go on once all samples are committed: to save their model, say
_FINISH_SECONDS = 300.0


def has_ended(status: JobStatus) -> bool:
    """Tell whether a status says that its job is complete or has failed."""
    ends = (ConditionType.COMPLETE, ConditionType.FAILED)
    return any(each.type in ends and each.status is ConditionStatus.TRUE for each in status.conditions)


def with_verdict(seen: Seen, book: Book) -> Book:
    """Return the book with the end of the job in it, if there is one: by the coordinator, or by what pods left."""
    if book.verdict is not None or has_ended(book.status):
        return book
    outcome = None if seen.view is None else seen.view.outcome
    if outcome is not None:
        verdict = Verdict(outcome.complete, outcome.why, seen.now, frozenset(outcome.done))
        return replace(book, verdict=verdict)
    finished = [pod for pod in seen.pods if _says_done(pod)]
    if finished:
        why = f"{finished[0].worker} has left word that the script has come to its end on all members"
        return replace(book, verdict=Verdict(True, why, seen.now))
    return book


def _says_done(pod: Pod) -> bool:
    """Tell whether a worker has left the message of one that was released at the end of the job."""
    if pod.ended is None or pod.ended.code != 0:
        return False
    try:
        said = json.loads(pod.ended.message)
    except (ValueError, RecursionError):
        return False
    return isinstance(said, dict) and said.get("type") == "done"


def completed(seen: Seen, book: Book) -> str:
    """Say why a job is complete; nothing if it is not, or not yet."""
    verdict = book.verdict
    return verdict.why if verdict and verdict.complete and _is_finished(seen, book, verdict) else ""


def failed(book: Book) -> str:
    """Say why a job has failed for good; nothing if it has not."""
    verdict = book.verdict
    if verdict is not None and not verdict.complete:
        return verdict.why
    return f"all samples are committed, but {book.late_failure}" if book.late_failure else ""


def _is_finished(seen: Seen, book: Book, verdict: Verdict) -> bool:
    """Tell whether the workers that took part in the end have ended, or have taken too long."""
    if book.late_failure:
        return False
    # Who took part has run, whatever the watch has shown so far; if nobody knows who did, those who run are asked.
    took_part = [pod for pod in seen.pods if (pod.worker in verdict.workers if verdict.workers else pod.running)]
    there = [pod for pod in took_part if not pod.over]
    return not there or seen.now - verdict.at >= timedelta(seconds=_FINISH_SECONDS)
