"""The coordinator over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import pytest

from coordination import SETTINGS, Site, done_of, serve
from omnilearn_coordinator.credentials import Identity
from omnilearn_coordinator.service import Coordinator
from omnilearn_core.api.messages import LARGEST_MESSAGE, Assignment, Change, Leave, Refused, Release, Reply, Welcome
from omnilearn_core.api.names import worker_path

TWO = replace(SETTINGS, expected=2)


async def refused(site: Site, path: str, headers: Mapping[str, str]) -> tuple[int, str]:
    async with site.session.get(site.url(path), headers=headers) as response:
        return response.status, (await response.json())["sentence"]


def test_workers_join_and_train_together() -> None:
    async def scene(site: Site) -> None:
        first, second = await site.running("a", "b")
        assert first.assignment == second.assignment
        assert first.assignment is not None
        assert first.assignment.change is Change.START
        assert sum(first.assignment.plan.shares.values()) == TWO.global_batch

    serve(TWO, scene)


@pytest.mark.parametrize("header", [None, "Bearer nonsense", "Bearer ", "Basic abc"])
def test_a_bad_token_is_refused_before_the_upgrade(header: str | None) -> None:
    async def scene(site: Site) -> None:
        headers = {} if header is None else {"Authorization": header}
        status, sentence = await refused(site, worker_path("job", "a"), headers)
        assert status == 401
        assert "token" in sentence

    serve(TWO, scene)


def test_a_token_is_good_only_for_its_own_worker_and_job() -> None:
    async def scene(site: Site) -> None:
        headers = {"Authorization": f"Bearer {site.tokens.issue('a', 0)}"}
        assert (await refused(site, worker_path("job", "b"), headers))[0] == 403
        assert (await refused(site, worker_path("other", "a"), headers))[0] == 404
        site.tokens.revoke("a")
        assert (await refused(site, worker_path("job", "a"), headers))[0] == 401
        metrics = await site.metrics()
        for kind, count in (("worker", 1), ("job", 1), ("token", 1), ("message", 0)):
            assert f'omnilearn_bad_requests_total{{job="job",kind="{kind}"}} {count}.0' in metrics

    serve(TWO, scene)


def test_an_older_attempt_is_refused() -> None:
    async def scene(site: Site) -> None:
        await site.worker("a", attempt=2)
        headers = {"Authorization": f"Bearer {site.tokens.issue('a', 1)}"}
        status, sentence = await refused(site, worker_path("job", "a"), headers)
        assert status == 403
        assert "attempt 2" in sentence

    serve(TWO, scene)


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        ("nonsense", "JSON"),
        ("[]", "type"),
        ('{"type": "nothing"}', "type"),
        ('{"type": "join", "device": "cpu", "address": "x", "port": 0}', "port of a join"),
        ('{"type": "leave", "why": "x", "extra": 1}', "extra of a leave"),
        ('{"type": "report", "worker": "a"}', "of a report message"),
    ],
)
def test_a_bad_frame_is_answered_in_words_and_changes_nothing(frame: str, words: str) -> None:
    async def scene(site: Site) -> None:
        talker = await site.worker("a")
        await talker.hear(Welcome)
        before = site.coordinator.snapshot()
        await talker.say(frame)
        refusal = await talker.hear(Refused)
        assert refusal.status == 400
        assert words in refusal.sentence
        assert replace(site.coordinator.snapshot(), bad_requests={}) == before

    serve(TWO, scene)


def test_a_worker_cannot_report_for_another() -> None:
    async def scene(site: Site) -> None:
        first, _ = await site.running("a", "b")
        assert first.assignment is not None
        await first.say(first.report(first.assignment.plan, worker="b"))
        assert (await first.hear(Refused)).status == 403

    serve(TWO, scene)


def test_too_many_bad_frames_end_the_connection() -> None:
    async def scene(site: Site) -> None:
        talker = await site.worker("a")
        for _ in range(20):
            await talker.say("nonsense")
        await talker.ends()

    serve(TWO, scene)


def test_a_huge_frame_ends_the_connection_and_nothing_else() -> None:
    async def scene(site: Site) -> None:
        first = await site.worker("a")
        second = await site.worker("b")
        with suppress(ConnectionError):  # it may be closed before all of it was sent
            await first.say("x" * (LARGEST_MESSAGE + 1))
        await first.ends()
        await second.join()
        await site.until(lambda: site.coordinator.snapshot().joiners == ("b",))

    serve(TWO, scene)


def test_a_closed_connection_regroups_the_others_at_once_and_drops_its_series() -> None:
    async def scene(site: Site) -> None:
        first, second = await site.running("a", "b")
        for talker in (first, second):
            assert talker.assignment is not None
            await talker.say(talker.report(talker.assignment.plan, logged={"accuracy": 0.5}))
            await talker.hear(Reply)
        metrics = await site.metrics()
        assert 'omnilearn_share{job="job",worker="b"} 32.0' in metrics
        assert 'omnilearn_logged{job="job",name="accuracy"} 0.5' in metrics
        await second.socket.close()
        assert (await first.take_part()).change is Change.URGENT
        await site.until(lambda: site.coordinator.snapshot().phase == "Running")
        metrics = await site.metrics()
        assert 'worker="b"' not in metrics
        assert 'omnilearn_share{job="job",worker="a"} 64.0' in metrics
        assert 'omnilearn_regroups_total{job="job"} 1.0' in metrics

    serve(TWO, scene)


def test_a_new_plan_reaches_rank_0_unasked_with_the_laws_state() -> None:
    async def scene(site: Site) -> None:
        first, second = await site.running("a", "b")
        assert first.assignment is not None
        plan = first.assignment.plan
        await first.say(first.report(plan, compute_seconds=0.1))
        assert (await first.hear(Reply)).law_state is not None
        await second.say(second.report(plan, compute_seconds=0.4))
        assert (await second.hear(Reply)).law_state is None
        reply = await first.hear(Reply)
        assert reply.plan is not None
        assert reply.plan.shares["a"] > 32
        assert reply.law_state is not None
        view = site.coordinator.snapshot()
        assert view.plan_changes == 1
        assert view.imbalance == pytest.approx(1 - 0.25 / 0.4)
        await second.say(second.report(plan, compute_seconds=0.4))
        assert (await second.hear(Reply)).plan == reply.plan

    serve(TWO, scene)


def test_a_restarted_coordinator_adopts_the_generation_and_its_plan() -> None:
    async def scene(site: Site) -> None:
        first, _ = await site.running("a", "b")
        old = first.assignment
        assert old is not None
        await site.coordinator.stop()
        await site.start(term=2)
        back_again = [await site.worker(name) for name in ("a", "b")]
        for talker in back_again:
            assert (await talker.hear(Welcome)).term == 2
            back = {"generation": old.generation, "members": old.members, "plan": old.plan, "round": 7}
            await talker.join(**back, last_generation=old.generation.number)
        await site.until(lambda: site.coordinator.snapshot().phase == "Running")
        view = site.coordinator.snapshot()
        assert view.generation == old.generation.number
        assert [member.share for member in view.members] == [32, 32]

    serve(TWO, scene)


def test_stopping_closes_connections_without_a_goodbye() -> None:
    async def scene(site: Site) -> None:
        talker = await site.worker("a")
        await talker.hear(Welcome)
        await site.coordinator.stop()
        assert await talker.ends() == 1006

    serve(TWO, scene)


def test_a_port_that_is_taken_is_told_by_an_error() -> None:
    async def scene(site: Site) -> None:
        with pytest.raises(OSError, match=r"(?i)address already in use"):
            await Coordinator(TWO, site.tokens).start("127.0.0.1", site.port)

    serve(TWO, scene)


def test_a_job_that_is_done_releases_everybody_and_has_an_outcome() -> None:
    async def scene(site: Site) -> None:
        talkers = await site.running("a", "b")
        for talker in talkers:
            assert talker.assignment is not None
            await talker.say(done_of(talker.assignment.generation))
        for talker in talkers:
            assert not (await talker.hear(Release)).failed
        outcome = site.coordinator.outcome
        assert outcome is not None
        assert outcome.complete
        assert {worker: done.parameter_hash for worker, done in outcome.done.items()} == {"a": "abc", "b": "abc"}

    serve(TWO, scene)


def test_a_leaver_is_released_when_the_others_have_entered() -> None:
    async def scene(site: Site) -> None:
        first, second = await site.running("a", "b")
        await second.say(Leave(why="SIGTERM"))
        assert (await second.hear(Assignment)).change is Change.PLANNED
        await first.take_part()
        await second.hear(Release)

    serve(TWO, scene)


def test_a_peer_that_does_not_read_is_dropped_and_delays_nobody() -> None:
    async def scene(site: Site) -> None:
        first, second = await site.running("a", "b")
        assert first.assignment is not None
        connection = next(c for c in site.coordinator._open.values() if c.identity.worker == "b")
        for _ in range(300):
            connection.send("x")
        assert (await first.take_part()).members[0].worker == "a"
        await asyncio.wait_for(second.ends(), 5.0)

    serve(TWO, scene)


def test_health_tells_the_phase() -> None:
    async def scene(site: Site) -> None:
        async with site.session.get(site.url("/healthz")) as response:
            assert await response.json() == {"phase": "Waiting"}

    serve(TWO, scene)


def test_a_worker_whose_end_is_near_leaves_although_it_has_not_asked_for_it() -> None:
    async def scene(site: Site) -> None:
        first, _ = await site.running("a", "b")
        site.coordinator.retire([Identity("b", 0)], "its pod has to go")
        assert (await first.take_part()).change is Change.PLANNED
        await site.until(lambda: [each.worker for each in site.coordinator.snapshot().members] == ["a"])

    serve(TWO, scene)


def test_another_attempt_of_a_worker_is_not_retired() -> None:
    async def scene(site: Site) -> None:
        await site.running("a", "b")
        before = site.coordinator.snapshot()
        site.coordinator.retire([Identity("b", 7), Identity("nobody", 0)], "its pod has to go")
        assert site.coordinator.snapshot().members == before.members

    serve(TWO, scene)
