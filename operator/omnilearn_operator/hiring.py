"""Which of the pods that a job should have are created now: first their templates are tried. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from .book import OBJECTS, Book, Check
from .manifests.pods import template_hash
from .observed import Pod
from .status import Seen
from .workforce import Create, Delete, Workforce

_LONGEST_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Hiring:
    """Pods to try, to create and to replace, and when to look again."""

    check: tuple[Create, ...] = ()
    """One for each template that nothing is known of."""

    create: tuple[Create, ...] = ()
    replace: tuple[Delete, ...] = ()
    """Pods of a former template that go now."""

    again: float = _LONGEST_SECONDS


def hire(seen: Seen, book: Book, work: Workforce, members: Collection[str], *, steady: bool) -> Hiring:
    """Decide which pods are tried, created and replaced.

    Nothing is created before all templates were tried, nor while one of them is bad. A template that is refused for
    the time being does not hold up the others. A new template is rolled out pod by pod, each when the job is
    ``steady``: everybody who is wanted trains. Who is no member has nothing to lose and is replaced at once.
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
    if unknown or any(check is not None and check.invalid for check in checks.values()):
        return Hiring(check=tuple(unknown.values()), again=again)
    good = {hash_ for hash_, check in checks.items() if check is not None and not check.refused}
    waits = [
        (create, (due(create, seen, book) - seen.now).total_seconds())
        for create in work.create
        if hashes[create.worker.group.name] in good
    ]
    rolled = [(goes, comes) for goes, comes in work.outdated if hashes[comes.worker.group.name] in good]
    idle = [goes for goes, comes in rolled if comes.name not in members]
    busy = [goes for goes, comes in rolled if comes.name in members]
    return Hiring(
        create=tuple(create for create, wait in waits if wait <= 0),
        replace=(*idle, *(busy[:1] if steady and not work.create else ())),
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
