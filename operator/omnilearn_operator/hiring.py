"""Which of the pods that a job should have are created now: first their templates are tried. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from .book import OBJECTS, Book, Check
from .manifests.pods import template_hash
from .observed import Pod
from .rollouts import Crew, next_to_go
from .status import Seen
from .workforce import Create, Delete, Workforce

_LONGEST_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Hiring:
    """Pods to try, to create and to replace, and when to look again."""

    check: tuple[Create, ...] = ()
    """One for each template that nothing is known of."""

    create: tuple[Create, ...] = ()
    replace: tuple[tuple[Delete, Create], ...] = ()
    """Pods of a former template that go now, each with what takes its place."""

    again: float = _LONGEST_SECONDS


def hire(seen: Seen, book: Book, work: Workforce, crew: Crew) -> Hiring:
    """Decide which pods are tried, created and replaced.

    Nothing is created before all templates were tried; nor, before the first step, while one of them is bad. Later, and
    where one is refused for the time being, it does not hold up the others.
    """
    hashes = {group.name: template_hash(group) for group in seen.job.spec.workers}
    asked = [*work.create, *(successor for _, successor in work.outdated)]
    checks = {hash_: book.checks.get(hash_) for hash_ in (hashes[each.worker.group.name] for each in asked)}
    objects = book.checks.get(OBJECTS, Check())
    if not objects.good and not objects.due(seen.now):
        return Hiring(again=_next_check({OBJECTS: objects}, seen.now))
    unknown: dict[str, Create] = {}
    for create in asked:
        hash_ = hashes[create.worker.group.name]
        check = checks[hash_]
        if check is None or check.due(seen.now):
            unknown.setdefault(hash_, create)
    again = _next_check(checks, seen.now)
    bad = any(check is not None and check.invalid for check in checks.values())
    if unknown or (bad and book.started is None):
        return Hiring(check=tuple(unknown.values()), again=again)
    good = {hash_ for hash_, check in checks.items() if check is not None and check.good}
    taken = [create for create in work.create if hashes[create.worker.group.name] in good]
    waits = [(create, (due(create, seen, book) - seen.now).total_seconds()) for create in taken]
    outdated = [pair for pair in work.outdated if hashes[pair[1].worker.group.name] in good]
    refused = {create.name for create in work.create} - {create.name for create in taken}
    return Hiring(
        create=tuple(create for create, wait in waits if wait <= 0),
        replace=tuple(next_to_go(seen, book, crew, outdated, refused)),
        again=min([again, *(wait for _, wait in waits if wait > 0)]),
    )


def _next_check(checks: Mapping[str, Check | None], now: datetime) -> float:
    times = [(each.again - now).total_seconds() for each in checks.values() if each is not None and each.again]
    return max(0.1, min([*times, _LONGEST_SECONDS]))


def due(create: Create, seen: Seen, book: Book) -> datetime:
    """Return when an attempt may be created: a pause after its predecessor's end."""
    if not create.after:
        return seen.now
    told = book.ended.get(create.name, book.since)
    ends = [_end_of(pod) or told for pod in seen.pods if pod.worker == create.name and pod.ended]
    return min(max(ends, default=told), told) + timedelta(seconds=create.after)


def _end_of(pod: Pod) -> datetime | None:
    """Return when a pod ended; its node's clock may be hours behind, the API server's says when it was created."""
    at = None if pod.ended is None else pod.ended.at
    return at if at is None or pod.created is None else max(at, pod.created)
