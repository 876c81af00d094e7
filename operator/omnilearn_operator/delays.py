"""Pods that their nodes do not start: the pod's status says not why, but events about it do. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from .book import Book
from .observed import Pod

# Most pods are started within this time, and nobody has to be asked.
_USUAL = timedelta(seconds=3)
_ASK_AGAIN = timedelta(seconds=10)
_MOST_ASKED = 3
_LONGEST = 1000


def to_ask(pods: Iterable[Pod], book: Book, now: datetime) -> tuple[Pod, ...]:
    """Return the pods whose events should be read now; a few stand for all."""
    slow = [pod for pod in pods if _is_slow(pod, now)][:_MOST_ASKED]
    return tuple(pod for pod in slow if pod.uid not in book.delays or now - book.delays[pod.uid].asked >= _ASK_AGAIN)


def next_question(pods: Iterable[Pod], now: datetime) -> float | None:
    """Return in how many seconds a pod may have to be asked about; None if all run."""
    starting = [pod.creating_since for pod in pods if pod.creating_since is not None and not pod.over]
    return max(0.5, (max(starting) + _USUAL - now).total_seconds()) if starting else None


def explained(pods: Iterable[Pod], book: Book) -> tuple[Pod, ...]:
    """Return the pods with what events say of those that do not start."""
    return tuple(
        replace(pod, stuck=book.delays[pod.uid].why)
        if not pod.stuck and pod.creating_since is not None and pod.uid in book.delays
        else pod
        for pod in pods
    )


def reason_in(events: Sequence[Mapping[str, Any]]) -> str:
    """Return what the newest warning about a pod says."""
    warnings = [each for each in events if each.get("type") == "Warning"]
    if not warnings:
        return ""
    newest = max(warnings, key=lambda each: str(each.get("lastTimestamp") or each.get("eventTime") or ""))
    return f"{newest.get('reason', '')}: {newest.get('message', '')}"[:_LONGEST]


def _is_slow(pod: Pod, now: datetime) -> bool:
    return not pod.over and pod.creating_since is not None and now - pod.creating_since >= _USUAL
