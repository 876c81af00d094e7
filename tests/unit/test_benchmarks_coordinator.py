"""The parts of `benchmarks.coordinator`: frames, figures and verdicts; and a small fleet against a real coordinator."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from benchmarks import coordinator, frames, serving
from benchmarks.load import Fleet
from hypothesis import given, settings
from hypothesis import strategies as st

from omnilearn_coordinator.credentials import Tokens
from omnilearn_coordinator.service import Coordinator
from omnilearn_coordinator.settings import JobSettings
from omnilearn_core.api.frames import FROM_WORKER
from omnilearn_core.api.messages import WorkerReport

NAMES = ("load-w-0", "load-w-1", "load-w-2")


def unmasked(frame: bytes) -> bytes:
    """Return a client's frame as a server would send it."""
    size = frame[1] & 0x7F
    begin = 2 if size < 126 else 4 if size == 126 else 10
    return bytes((frame[0], size)) + frame[2:begin] + frame[begin + 4 :]


def with_fleet(scene: Callable[[Fleet, Coordinator], Awaitable[None]]) -> None:
    """Run a scene with three workers in the first generation."""

    async def play() -> None:
        tokens = Tokens()
        issued = {name: tokens.issue(name, 0) for name in NAMES}
        served = Coordinator(JobSettings("load", 96, expected=3, most=3), tokens)
        port = await served.start(serving.HOST, 0)
        fleet = Fleet("load", issued, time.monotonic)
        try:
            async with asyncio.timeout(10.0):
                await fleet.gather(serving.HOST, port)
                await scene(fleet, served)
        finally:
            for line in fleet.lines:
                line.close()
            await served.stop()

    asyncio.run(play())


def received(payloads: list[bytes], cut: int) -> list[bytes]:
    """Return what is decoded of frames that arrive in pieces; nothing may be left over."""
    stream = b"".join(unmasked(frames.encode(payload)) for payload in payloads)
    buffer, found = bytearray(), []
    for begin in range(0, len(stream), cut):
        buffer += stream[begin : begin + cut]
        found += [payload for _, payload in frames.decode(buffer)]
    assert not buffer
    return found


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from([0, 1, 125, 126, 300]), max_size=4), st.integers(1, 400))
def test_frames_survive_any_cutting(sizes: list[int], cut: int) -> None:
    payloads = [bytes([index]) * size for index, size in enumerate(sizes)]
    assert received(payloads, cut) == payloads


@pytest.mark.parametrize("size", [65535, 65536, 200000])
def test_long_frames_survive(size: int) -> None:
    payloads = [b"x" * size, b"y"]
    assert received(payloads, 4099) == payloads


def test_percentiles_are_values_that_were_measured() -> None:
    assert coordinator.percentiles([3.0, 1.0, 2.0, 4.0], [0, 50, 75, 99, 100]) == [1.0, 2.0, 3.0, 4.0, 4.0]


def test_usage_is_read_as_the_kernel_writes_it() -> None:
    found = serving.usage_from("2000000000 500000000 77\n", "Name:\ta: b\nVmHWM:\t  20 kB\nVmRSS:\t  10 kB\n")
    assert found == serving.Usage(2.0, 0.5, 10240, 20480)


def test_this_process_has_used_something() -> None:
    assert serving.usage_of(os.getpid()).memory > 0


@pytest.mark.parametrize(("rate", "p99", "met"), [(2500, 0.02, [True, True]), (1500, 0.06, [False, False])])
def test_goals_are_met_or_missed(rate: int, p99: float, met: list[bool]) -> None:
    results: dict[str, Any] = {
        "workers": 1000,
        "closed": {"answered": 10 * rate, "seconds": 10.0, "cpu_seconds": 9.0, "waited_seconds": 0.1, "in_flight": 64},
        "open": {"permille": [p99] * 1001, "seconds": 10.0, "waited_seconds": 4.0},
    }
    verdicts = coordinator.judge(results)
    assert [verdict.met for verdict in verdicts] == met
    assert ["disturbed" in verdict.where for verdict in verdicts] == [False, True]


def test_reports_are_good_and_answered() -> None:
    async def scene(fleet: Fleet, served: Coordinator) -> None:
        line = fleet.lines[1]
        report = FROM_WORKER.validate_json(fleet.report_of(line))
        assert isinstance(report, WorkerReport)
        assert report.share == 32
        answered: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        fleet.on_reply = lambda _, latency: answered.set_result(latency)
        line.report()
        assert await answered > 0
        assert served.snapshot().bad_requests == {}

    with_fleet(scene)


def test_a_loss_is_told_to_all_others() -> None:
    async def scene(fleet: Fleet, _: Coordinator) -> None:
        before = fleet.number
        arrivals = await fleet.lose(fleet.lines[-1])
        assert len(arrivals) == 2
        assert fleet.number == before + 1

    with_fleet(scene)


def test_a_fleet_that_loses_a_connection_unwillingly_says_so() -> None:
    async def scene(fleet: Fleet, served: Coordinator) -> None:
        await served.stop()
        with pytest.raises(RuntimeError, match="has closed the connection"):
            await fleet.unless_failed(asyncio.sleep(5.0))

    with_fleet(scene)
