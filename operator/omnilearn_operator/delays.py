"""Pods that their nodes do not start: the pod's status says not why, but events about it do. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from omnilearn_core.endings import back_off

from .book import Book
from .observed import Pod

# Most pods are started within this time, and nobody has to be asked; with many jobs, nodes have more to start.
_USUAL_SECONDS = 3.0
_FIRST_SECONDS, _LONGEST_SECONDS = 5.0, 60.0
_MOST_ASKED = 3
_LONGEST = 1000


def to_ask(pods: Iterable[Pod], book: Book, now: datetime, usual: float = _USUAL_SECONDS) -> tuple[Pod, ...]:
    """Return the pods whose events should be read now; a few stand for all."""
    return tuple(pod for pod, at in _questions(pods, book, usual) if at <= now)


def next_question(pods: Iterable[Pod], book: Book, now: datetime, usual: float = _USUAL_SECONDS) -> float | None:
    """Return in how many seconds a pod may have to be asked about; None if all run."""
    later = [(at - now).total_seconds() for _, at in _questions(pods, book, usual) if at > now]
    return min(later, default=None)


def _questions(pods: Iterable[Pod], book: Book, usual: float) -> list[tuple[Pod, datetime]]:
    """Return the first pods that are being started, and when to ask about each: less and less often."""
    found: list[tuple[Pod, datetime]] = []
    for pod in pods:
        if pod.over or pod.creating_since is None or len(found) == _MOST_ASKED:
            continue
        known = book.delays.get(pod.uid)
        pause = 0.0 if known is None else back_off(known.times, _FIRST_SECONDS, _LONGEST_SECONDS)
        first = pod.creating_since + timedelta(seconds=usual)
        at = first if known is None else known.asked + timedelta(seconds=pause)
        found.append((pod, at))
    return found


def explained(pods: Iterable[Pod], book: Book) -> tuple[Pod, ...]:
    """Return the pods with what events say of those that do not start."""
    return tuple(
        replace(pod, stuck=book.delays[pod.uid].why)
        if not pod.stuck and pod.creating_since is not None and pod.uid in book.delays
        else pod
        for pod in pods
    )


def reason_in(events: Sequence[Mapping[str, Any]], since: datetime) -> str:
    """Return what the newest warning about a pod says; what was said before it was given to a node is settled."""
    warnings = [(_time(each), each) for each in events if each.get("type") == "Warning"]
    fresh = [(at, each) for at, each in warnings if at >= since.replace(microsecond=0)]
    if not fresh:
        return ""
    _, newest = max(fresh, key=lambda pair: pair[0])
    return f"{newest.get('reason', '')}: {newest.get('message', '')}"[:_LONGEST]


def _time(event: Mapping[str, Any]) -> datetime:
    text = event.get("lastTimestamp") or event.get("eventTime")
    return datetime.fromisoformat(text) if text else datetime.min.replace(tzinfo=UTC)
