"""One look at a job, and what was decided: for tests of the operator's decisions."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from omnilearn_coordinator.view import JobView
from omnilearn_core.api.job import OmniLearnJob
from omnilearn_operator.book import Book, Check, opened
from omnilearn_operator.manifests.pods import template_hash
from omnilearn_operator.observed import Pod
from omnilearn_operator.reconcile import Decision, decide
from omnilearn_operator.status import Seen
from operations import CREATED, NOW, job_of

HASH = template_hash(job_of().spec.workers[0])
GOOD = {HASH: Check()}


def book_of(job: OmniLearnJob, **known: Any) -> Book:
    return replace(opened(job, CREATED), **{"checks": GOOD, **known})


def look(
    job: OmniLearnJob,
    *pods: Pod,
    view: JobView | None = None,
    now: datetime = NOW,
    book: Book | None = None,
    **known: Any,
) -> Decision:
    return decide(Seen(job, pods, view, now), book or book_of(job, **known), "ca")


def condition(decision: Decision, kind: str) -> tuple[str, str]:
    assert decision.status is not None
    found = next(each for each in decision.status.conditions if each.type == kind)
    return str(found.status), found.reason


def said(decision: Decision, kind: str) -> str:
    assert decision.status is not None
    return next(each.message for each in decision.status.conditions if each.type == kind)


def reasons(decision: Decision) -> list[str]:
    return [str(note.reason) for note in decision.tell]
