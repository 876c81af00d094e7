"""Too much of everything: of messages, connections, tokens and silence. The calm job beside it is answered as ever."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace

import pytest
from aiohttp import ClientWebSocketResponse, WSMsgType, WSServerHandshakeError

from bad_wire import frame, request
from coordination import SETTINGS, Site, Talker, serve
from neighbours import ANSWERS, NOISY, Neighbours, beside
from omnilearn_coordinator import reception
from omnilearn_coordinator.limits import Allowance
from omnilearn_coordinator.refusals import RefusedRequest
from omnilearn_core.api.frames import TO_WORKER, to_frame
from omnilearn_core.api.messages import Refused, Reply, Welcome, WorkerReport
from omnilearn_operator.api import Manifest
from omnilearn_operator.credentials import Bearer, PodCredentials, Reviews
from omnilearn_operator.registry import Registry
from operations import MemoryApi

_FLOOD = 5000
_CALM_ROUNDS = 50
_WORDS_AT_ONCE, _WORDS_EACH_SECOND = 200, 20


async def flood(talker: Talker, text: str) -> None:
    """Send as much as goes."""
    with suppress(ConnectionError):
        for _ in range(_FLOOD):
            await talker.socket.send_str(text)


async def heard(socket: ClientWebSocketResponse, counts: Counter[str]) -> None:
    """Count what comes, by kind."""
    async for message in socket:
        if message.type is WSMsgType.TEXT:
            counts[TO_WORKER.validate_json(message.data).type] += 1


def test_a_worker_that_reports_all_the_time_is_heard_slowly_and_the_calm_job_at_once() -> None:
    async def scene(site: Neighbours) -> None:
        first, second = await site.training(NOISY)
        assert first.assignment is not None
        counts: Counter[str] = Counter()
        begun = time.monotonic()
        tasks = [
            asyncio.create_task(flood(first, to_frame(first.report(first.assignment.plan)))),
            asyncio.create_task(heard(first.socket, counts)),
        ]
        await site.until(lambda: counts["refused"] > 0)
        await site.calm_replies(_CALM_ROUNDS)
        # Its neighbour in the same job is heard, too.
        await second.say(second.report(first.assignment.plan))
        await second.hear(Reply)
        allowed = _WORDS_AT_ONCE + _WORDS_EACH_SECOND * (time.monotonic() - begun + 1.0)
        assert _WORDS_AT_ONCE // 2 < counts["reply"] <= allowed < _FLOOD
        assert counts["refused"] == 1, "it is told once"
        assert site.refused("rate") > 0
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for talker in (first, second):
            await talker.socket.close()

    beside(scene)


def test_many_pings_are_answered_slowly() -> None:
    async def scene(site: Neighbours) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        writer.write(request())
        await reader.readuntil(b"\r\n\r\n")
        writer.write(frame(b"", opcode=9) * _FLOOD)
        await site.until(lambda: site.refused("rate") > 0)
        await site.calm_replies(_CALM_ROUNDS)
        assert site.refused("rate") < _WORDS_AT_ONCE
        writer.close()

    beside(scene)


def test_large_messages_cost_more_than_small_ones() -> None:
    async def scene(site: Neighbours) -> None:
        talker = await site.worker(NOISY)
        await talker.hear(Welcome)
        for _ in range(8):
            await talker.say('{"type": "leave", "why": "' + "x" * 2**21 + '"}')
        await site.until(lambda: site.refused("rate") > 0)
        assert site.refused("message") < 8

    beside(scene)


def test_a_worker_that_dials_all_the_time_is_told_to_wait() -> None:
    async def scene(site: Neighbours) -> None:
        talkers, refused = [], []
        for _ in range(30):
            try:
                talkers.append(await site.worker(NOISY))
            except WSServerHandshakeError as error:
                refused.append(error.status)
        assert set(refused) == {429}
        assert 5 <= len(refused) == site.refused("connections")
        await site.until(lambda: sum(not talker.socket.closed for talker in talkers) >= 1)
        for talker in talkers:
            await talker.socket.close()

    beside(scene)


def test_a_job_has_no_more_connections_than_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnilearn_coordinator.limits._SPARE_CONNECTIONS_OF_A_JOB", 0)

    async def scene(site: Site) -> None:
        for name in ("a", "b"):
            await site.worker(name)
        with pytest.raises(WSServerHandshakeError, match="429"):
            await site.worker("c")
        assert site.coordinator.snapshot().bad_requests == {"connections": 1}

    serve(replace(SETTINGS, most=1, expected=1), scene)


def test_who_asks_for_nothing_is_shown_out_with_a_sentence() -> None:
    async def scene(site: Neighbours) -> None:
        site.reception.ask_seconds = 0.05
        for begun in (b"", b"GET /", request()[:-2]):
            status, sentence = await site.ask(begun)
            assert status == 408
            assert "in time" in sentence
        assert site.refused("handshake") == 3

    beside(scene)


def test_silent_connections_crowd_out_only_those_of_their_own_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reception, "_MOST_WAITING", 20)

    async def scene(site: Neighbours) -> None:
        loopback = "127.0.0.1"
        other = await asyncio.open_connection(loopback, site.port, local_addr=("127.0.0.2", 0))
        crowd = [await asyncio.open_connection(loopback, site.port, local_addr=("127.0.0.3", 0)) for _ in range(60)]
        await site.until(lambda: site.refused("handshake") == 41)
        other[1].write(request("nonsense"))
        assert b" 401 " in await other[0].read()
        assert b" 429 " in await crowd[0][0].read()
        for _, writer in (*crowd, other):
            writer.close()

    beside(scene)


async def beat(talker: Talker, report: WorkerReport) -> None:
    """Report as often as one does that is alive."""
    while True:
        await talker.say(report)
        await asyncio.sleep(0.05)


def test_a_frame_that_never_ends_does_not_hold_up_the_others() -> None:
    async def scene(site: Site) -> None:
        first, second = await site.running("a", "b")
        assert first.assignment is not None
        transport = second.socket._response.connection.transport  # type: ignore[union-attr]
        transport.write(frame(b"{", length=1000))  # type: ignore[union-attr]
        beating = asyncio.create_task(beat(first, first.report(first.assignment.plan)))
        assert [each.worker for each in (await first.take_part()).members] == ["a"]
        beating.cancel()

    serve(replace(SETTINGS, expected=2, silent_after=0.4), scene)


class SlowReviewer(MemoryApi):
    """Answers when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.go_on = asyncio.Event()

    async def create(self, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        token = manifest["spec"]["token"]
        self.asked.append(token)
        await self.go_on.wait()
        return ANSWERS.get(token, {"status": {"authenticated": False}})


def test_random_tokens_of_one_address_leave_places_for_the_good_ones_of_others() -> None:
    async def scene() -> None:
        api = SlowReviewer()
        reviews = Reviews(api)
        bad = [asyncio.create_task(reviews.bearer(f"bad {k}", "10.0.0.66")) for k in range(50)]
        await asyncio.sleep(0)
        good = [asyncio.create_task(reviews.bearer(f"calm-a-{k}", f"10.0.0.{k}")) for k in range(2)]
        while len(api.asked) < 6:  # noqa: ASYNC110 - it asks as soon as it can
            await asyncio.sleep(0)
        assert Counter(each.split()[0] for each in api.asked) == {"bad": 4, "calm-a-0": 1, "calm-a-1": 1}
        api.go_on.set()
        assert [each and each.pod for each in await asyncio.gather(*good)] == ["calm-a-0-0", "calm-a-1-0"]
        answers = await asyncio.gather(*bad, return_exceptions=True)
        crowded = [each for each in answers if each is not None]
        assert len(crowded) >= 50 - 30 - 4
        assert "too many bad tokens" in str(crowded[0])

    asyncio.run(asyncio.wait_for(scene(), 10.0))


def test_an_address_that_has_sent_bad_tokens_may_try_again_after_a_while() -> None:
    async def scene() -> None:
        now, api = [0.0], SlowReviewer()
        api.go_on.set()
        reviews = Reviews(api, clock=lambda: now[0])
        credentials = PodCredentials(NOISY, reviews, Registry())
        for k in range(40):
            with suppress(RefusedRequest):
                await credentials.identify(f"bad {k}", "10.0.0.66")
        assert len(api.asked) == 30
        with pytest.raises(RefusedRequest, match="Too Many Requests"):
            await credentials.identify("calm-a-0", "10.0.0.66")
        now[0] = 2.0
        assert await reviews.bearer("calm-a-0", "10.0.0.66") == Bearer("team", "calm-a-0-0", "calm-a-0-0-uid")

    asyncio.run(scene())


def test_bad_tokens_do_not_push_out_what_is_known_of_good_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnilearn_operator.credentials._MOST_REMEMBERED", 5)

    async def scene() -> None:
        api = SlowReviewer()
        api.go_on.set()
        reviews = Reviews(api)
        for token in ("calm-a-0", *(f"bad {k}" for k in range(20)), "calm-a-0"):
            await reviews.bearer(token)
        assert api.asked.count("calm-a-0") == 1

    asyncio.run(scene())


def test_an_address_has_only_so_many_that_wait_to_be_known() -> None:
    async def scene() -> None:
        credentials = PodCredentials(NOISY, Reviews(SlowReviewer()), Registry())
        waiting = [asyncio.create_task(credentials.identify(f"bad {k}", "10.0.0.66")) for k in range(70)]
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert {str(each.exception()) for each in done} == {"Too Many Requests"}
        assert len(done) == 6
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    asyncio.run(scene())


def test_what_was_spent_comes_back_with_time() -> None:
    allowance = Allowance(2.0, 0.5, 100.0)
    assert [allowance.take(100.0) for _ in range(3)] == [True, True, False]
    assert not allowance.left(101.0)
    assert allowance.left(102.0)
    assert allowance.owe(102.0) == 0.0
    assert allowance.owe(102.0, 3.0) == pytest.approx(6.0)
    assert [allowance.take(moment) for moment in (109.0, 110.0)] == [False, True]


def test_refusals_are_told_without_the_connection_being_kept() -> None:
    async def scene(site: Neighbours) -> None:
        status, sentence = await site.ask(request(""))
        assert (status, Refused(status=status, sentence=sentence).status) == (401, 401)

    beside(scene)
