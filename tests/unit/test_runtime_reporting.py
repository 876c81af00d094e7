"""When a worker reports."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("torch", reason="what is reported comes from training")

from omnilearn_runtime.reporting import Reporter


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
