"""Whatever is sent to the coordinator: a sentence, a count, no effect, no error in the log, and nobody else notices."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pytest
from aiohttp import WSMsgType

from bad_wire import BREAKERS, FRAMES, MESSAGES, REQUESTS, request
from coordination import Talker
from mutations import near
from neighbours import NOISY, Neighbours, beside, pod_of
from omnilearn_coordinator.refusals import BadFrameError, parse
from omnilearn_core.api.messages import Refused, Welcome
from situations import times

_MUTANTS = times(200)  # of each kind of message
_AT_ONCE = 15  # bad frames, before the connection is closed for them


@pytest.fixture(autouse=True)
def nothing_in_the_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.INFO):
        yield
    bad = [each for each in caplog.get_records("call") if each.levelno >= logging.WARNING or each.exc_info]
    assert [each.getMessage() for each in bad] == []


async def answers(talker: Talker, frames: Sequence[str | bytes]) -> list[Refused]:
    """Send bad frames; return the answers."""
    for frame in frames:
        await (talker.socket.send_bytes(frame) if isinstance(frame, bytes) else talker.socket.send_str(frame))
    return [await talker.hear(Refused) for _ in frames]


def test_every_bad_frame_is_answered_in_a_sentence_and_changes_nothing() -> None:
    async def scene(site: Neighbours) -> None:
        for name, frame in FRAMES.items():
            await site.renew(NOISY)
            first, second = await site.training(NOISY)
            before, count = site.standing(NOISY), site.refused()
            [refusal] = await answers(first, [frame])
            assert refusal.status in (400, 403), name
            assert len(refusal.sentence.split()) > 4, (name, refusal.sentence)
            assert (site.standing(NOISY), site.refused() - count) == (before, 1), name
            for talker in (first, second):
                await talker.socket.close()
            await site.calm_replies()

    beside(scene)


def mutants(kind: str) -> tuple[list[str], list[str]]:
    """Return messages near a good one: those that are bad, and those that are good by their form."""
    rng = random.Random(kind)
    frames = [_spoilt(json.dumps(each), rng) for each in near([MESSAGES[kind]], rng.randrange(2**32), _MUTANTS)]
    bad, good = [], []
    for frame in frames:
        try:
            parse(frame)
        except BadFrameError:
            bad.append(frame)
        else:
            good.append(frame)
    return bad, good


def _spoilt(frame: str, rng: random.Random) -> str:
    """Return a frame in which, one time in four, something is wrong that JSON's own writer never does."""
    at = rng.randrange(len(frame) + 1)
    ways = (
        frame[:at], frame[:at] + frame[at + 1 :], frame[:at] + "\0" + frame[at:], frame.replace("1", "NaN", 1),
        frame.replace("{", '{"type": "leave", ', 1), frame.replace(":", ": -", 1), frame + frame,
    )  # fmt: skip
    return rng.choice(ways) if rng.random() < 0.25 else frame


@pytest.mark.parametrize("kind", sorted(MESSAGES))
def test_messages_near_good_ones_are_refused_or_harmless(kind: str) -> None:
    bad, good = mutants(kind)
    assert len(bad) > _MUTANTS // 4

    async def scene(site: Neighbours) -> None:
        for begin in range(0, len(bad), _AT_ONCE):
            await site.renew(NOISY)
            talker = await site.worker(NOISY)
            await talker.hear(Welcome)
            before, batch = site.standing(NOISY), bad[begin : begin + _AT_ONCE]
            assert {each.status for each in await answers(talker, batch)} <= {400, 403}
            assert site.standing(NOISY) == before
            await talker.socket.close()
        for begin in range(0, len(good), _AT_ONCE):
            await site.renew(NOISY)
            talkers = await site.training(NOISY)
            assert talkers[0].assignment is not None
            nonce = talkers[0].assignment.generation.nonce
            for frame in good[begin : begin + _AT_ONCE]:
                with suppress(ConnectionError):  # it may be hung up on for what it says
                    await talkers[0].say(frame.replace('"nonce": "n"', f'"nonce": "{nonce}"'))
            for talker in talkers:
                await talker.socket.close()
            await site.calm_replies()

    beside(scene)


async def _closed(reader: asyncio.StreamReader) -> int:
    """Return the code by which a connection is closed; what was sent in vain may make the kernel forget it."""
    answer = b""
    async with asyncio.timeout(5.0):
        with suppress(ConnectionResetError):
            while piece := await reader.read(2**16):
                answer += piece
            return int.from_bytes(answer[answer.rindex(b"\x88") :][2:4], "big")
    return 1009


@pytest.mark.parametrize("name", sorted(BREAKERS))
def test_what_is_no_frame_ends_the_connection_with_a_code_and_is_counted(name: str) -> None:
    async def scene(site: Neighbours) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        writer.write(request())
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        writer.write(BREAKERS[name])
        code = await _closed(reader)
        writer.close()
        assert code in (1002, 1007, 1009)
        await site.until(lambda: site.refused("frame") == 1)

    beside(scene)


def test_every_bad_request_is_answered_with_a_status_and_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnilearn_operator.credentials._UNSEEN_SECONDS", 0.01)

    async def scene(site: Neighbours) -> None:
        for name, (raw, status) in REQUESTS.items():
            await site.renew(NOISY)
            before, count = site.standing(NOISY), site.refused()
            answer, sentence = await site.ask(raw)
            assert (name, answer) == (name, status)
            assert len(sentence.split()) > 4, (name, sentence)
            assert (site.standing(NOISY), site.refused() - count) == (before, 1), name
            await site.calm_replies()

    beside(scene)


def test_an_attempt_that_another_has_replaced_is_refused_although_its_token_is_good() -> None:
    async def scene(site: Neighbours) -> None:
        site.registry.see_pod(pod_of(NOISY.name, 0, attempt=1))
        talker = await site.worker(NOISY, bearer="second attempt")
        status, sentence = await site.ask(request("noisy-a-0"))
        assert (status, site.refused("attempt")) == (403, 1)
        assert "out of date" in sentence
        await talker.socket.close()

    beside(scene)


def test_a_token_that_is_used_twice_is_good_for_one_connection_the_newer_one() -> None:
    async def scene(site: Neighbours) -> None:
        first = await site.worker(NOISY)
        await first.hear(Welcome)
        second = await site.worker(NOISY)
        await second.hear(Welcome)
        await first.ends()
        [refusal] = await answers(second, [FRAMES["for another worker"]])
        assert refusal.status == 403
        await second.socket.close()

    beside(scene)


def test_after_too_many_bad_frames_the_connection_ends_with_a_sentence() -> None:
    async def scene(site: Neighbours) -> None:
        talker = await site.worker(NOISY)
        for _ in range(20):
            await talker.say("nonsense")
        async with asyncio.timeout(5.0):
            while (message := await talker.socket.receive()).type is WSMsgType.TEXT:
                pass
        assert (message.type, message.data) == (WSMsgType.CLOSE, 1008)
        assert "not understood" in str(message.extra)
        assert site.refused("message") == 20

    beside(scene)
