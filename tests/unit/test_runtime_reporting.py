"""When a worker reports."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("torch", reason="what is reported comes from training")

from omnilearn_core.api.messages import GenerationId
from omnilearn_runtime.element import Kind
from omnilearn_runtime.ledger import Intervals
from omnilearn_runtime.probing import Exchange
from omnilearn_runtime.progress import Progress
from omnilearn_runtime.reporting import Reporter
from omnilearn_runtime.timing import Lap
from omnilearn_runtime.work import Committed


def reporter_of(membership: Any) -> Reporter:
    return Reporter("job-a-0", cast("Any", membership), lambda: None)


def test_a_pause_that_becomes_shorter_counts_at_once() -> None:
    membership = SimpleNamespace(report_seconds=600.0)
    reporter, rested = reporter_of(membership), threading.Event()

    def rest() -> None:
        assert reporter._rest()
        rested.set()

    threading.Thread(target=rest, daemon=True).start()
    assert not rested.wait(0.1)
    membership.report_seconds = 0.0
    assert rested.wait(5.0)


def test_whoever_is_stopped_rests_no_longer_and_reports_no_more() -> None:
    reporter, began = reporter_of(SimpleNamespace(report_seconds=600.0)), time.monotonic()
    threading.Timer(0.1, reporter.stop).start()
    assert not reporter._rest()
    assert time.monotonic() - began < 5.0


def step(number: int) -> Committed:
    """Return a step that went as planned."""
    group = cast("Any", SimpleNamespace(rank=0))
    held, progress = Intervals.of((0, 4)), Progress(round=number, step=number)
    return Committed(Kind.STEP, progress, group, 1, 4, held, held, 8, 0.5, Lap(0.1, 0.1), False, True, 1, 0)


def test_what_auto_waits_for_is_told_at_once_and_once() -> None:
    reporter = reporter_of(SimpleNamespace(report_seconds=600.0))
    reporter.committed(step(1))
    assert not reporter._woken.is_set()
    id_ = GenerationId(number=1, nonce="n")
    reporter.exchange = Exchange(0.3, 0.1, id_)
    reporter.committed(step(2))
    assert reporter._rest()
    told = reporter.report(id_)
    assert (told.exchange_seconds, told.team_exchange_seconds, told.steps) == (0.3, 0.1, 0)
    reporter.committed(step(3))
    assert not reporter._woken.is_set()
    assert reporter.report(id_).steps == 3


def test_what_was_measured_in_another_generation_is_not_told() -> None:
    reporter = reporter_of(SimpleNamespace(report_seconds=600.0))
    reporter.exchange = Exchange(0.3, 0.1, GenerationId(number=1, nonce="n"))
    assert reporter.report(GenerationId(number=2, nonce="n")).exchange_seconds is None
