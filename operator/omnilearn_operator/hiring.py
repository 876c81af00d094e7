"""Which of the pods that a job should have are created now: first their templates are tried. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from .book import Book
from .manifests.pods import template_hash
from .status import Seen
from .workforce import Create

_LONGEST_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Hiring:
    """Pods to try, pods to create, and when to look again."""

    check: tuple[Create, ...] = ()
    """One for each template that nothing is known of."""

    create: tuple[Create, ...] = ()
    again: float = _LONGEST_SECONDS


def hire(seen: Seen, book: Book, wanted: Sequence[Create]) -> Hiring:
    """Decide which pods are tried and created.

    Nothing is created before all templates were tried, nor while one of them is bad. A template that is refused for
    the time being does not hold up the others.
    """
    hashes = [template_hash(each.worker.group) for each in wanted]
    checks = [book.checks.get(each) for each in hashes]
    unknown: dict[str, Create] = {}
    for create, hash_, check in zip(wanted, hashes, checks, strict=True):
        if check is None or check.due(seen.now):
            unknown.setdefault(hash_, create)
    again = _next_check(book, seen.now)
    if unknown or any(check is not None and check.invalid for check in checks):
        return Hiring(check=tuple(unknown.values()), again=again)
    allowed = [create for create, check in zip(wanted, checks, strict=True) if check is None or not check.refused]
    waits = [(create, (_due(create, seen) - seen.now).total_seconds()) for create in allowed]
    later = [wait for _, wait in waits if wait > 0]
    return Hiring(create=tuple(create for create, wait in waits if wait <= 0), again=min([again, *later]))


def _next_check(book: Book, now: datetime) -> float:
    times = [(each.again - now).total_seconds() for each in book.checks.values() if each.again is not None]
    return max(0.1, min([*times, _LONGEST_SECONDS]))


def _due(create: Create, seen: Seen) -> datetime:
    """Return when an attempt may be created: a pause after its predecessor's end."""
    if not create.after:
        return seen.now
    ends = [pod.ended.at for pod in seen.pods if pod.worker == create.name and pod.ended and pod.ended.at]
    return max(ends, default=seen.now) + timedelta(seconds=create.after if ends else 0.0)
