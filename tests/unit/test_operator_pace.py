"""What many jobs share: the agenda, the pace, and the numbers that tell of both."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta

from omnilearn_coordinator.metrics import series
from omnilearn_operator.agenda import Agenda
from omnilearn_operator.book import opened
from omnilearn_operator.delays import next_question, to_ask
from omnilearn_operator.metrics import OperatorMetrics, Shown
from omnilearn_operator.pace import Pace, pace_for
from omnilearn_operator.registry import Key, Registry
from operations import NOW, job_of, member, pod, view_of

A, B, C = (Key("team", name) for name in "abc")


# The agenda


def test_jobs_are_begun_when_they_are_due_the_longest_overdue_first() -> None:
    agenda = Agenda()
    for key, due in ((A, 3.0), (B, 1.0), (C, 9.0)):
        assert agenda.want(key, due)
    assert (agenda.next_due(), agenda.begin(5.0), agenda.next_due()) == (1.0, [B, A], 9.0)


def test_only_a_sooner_wish_changes_anything() -> None:
    agenda = Agenda()
    assert agenda.want(A, 5.0)
    assert not agenda.want(A, 7.0)
    assert agenda.want(A, 2.0)
    assert (agenda.begin(2.0), agenda.begin(100.0)) == ([A], [])
    assert agenda.next_due() == float("inf")


def test_a_job_that_is_looked_at_waits_for_its_next_turn() -> None:
    agenda = Agenda()
    agenda.want(A, 1.0)
    assert agenda.begin(1.0) == [A]
    agenda.want(A, 2.0)
    assert (agenda.begin(3.0), agenda.next_due()) == ([], float("inf"))
    agenda.end(A)
    assert (agenda.next_due(), agenda.begin(3.0)) == (2.0, [A])


def test_an_agenda_does_what_a_look_at_all_jobs_would() -> None:
    chance, agenda, due, busy = random.Random(7), Agenda(), dict[Key, float](), set[Key]()
    keys = [Key("team", str(index)) for index in range(20)]
    for now in range(500):
        for key in chance.sample(keys, 5):
            at = now + chance.uniform(-1, 5)
            agenda.want(key, at)
            due[key] = min(at, due.get(key, at))
        for key in chance.sample(sorted(busy), len(busy) // 2):
            busy.discard(key)
            agenda.end(key)
        expected = {key for key, at in due.items() if at <= now and key not in busy}
        begun = agenda.begin(now)
        assert (set(begun), len(begun)) == (expected, len(expected))
        busy |= expected
        due = {key: at for key, at in due.items() if key not in expected}
        waiting = [at for key, at in due.items() if key not in busy]
        assert agenda.next_due() == min(waiting, default=float("inf"))


# The pace


def test_few_jobs_have_the_usual_pace() -> None:
    assert pace_for(0) == pace_for(10, 50) == Pace()


def test_an_operator_that_has_just_started_waits_longer_for_thousands_of_workers() -> None:
    assert (pace_for(10, 1000).takeover, pace_for(1000, 5000).takeover) == (50.0, 210.0)


def test_what_repeats_itself_is_bounded_however_many_jobs_there_are() -> None:
    for jobs in (100, 1000, 10_000):
        pace = pace_for(jobs)
        rates = [jobs / pause for pause in (pace.look, pace.status, pace.shares, pace.plans, pace.resync)]
        assert max(rates) <= 100.0


def test_with_many_jobs_the_events_of_a_pod_that_does_not_start_are_read_later() -> None:
    waiting, book = pod(running=False, creating_since=NOW - timedelta(seconds=10)), opened(job_of(), NOW)
    few, many = (to_ask([waiting], book, NOW, pace_for(jobs).start) for jobs in (10, 1000))
    assert (few, many) == ((waiting,), ())
    assert next_question([waiting], book, NOW, pace_for(1000).start) == 90.0


# The registry


def test_what_the_operator_has_written_itself_is_no_news() -> None:
    registry = Registry()
    job = job_of().to_manifest()
    job["metadata"]["resourceVersion"] = "7"
    assert registry.is_news(job)
    registry.see_job(job)
    assert not registry.is_news(job)
    job["metadata"]["resourceVersion"] = "8"
    assert registry.is_news(job)


def test_an_object_without_a_version_is_always_news() -> None:
    assert Registry().is_news({"metadata": {"name": "p", "namespace": "team", "uid": "u"}})


# The numbers


def test_the_numbers_of_the_operator_name_no_job() -> None:
    registry = Registry()
    registry.see_job(job_of().to_manifest())
    shown = Shown(registry, lambda: iter([(A, view_of([member(0)]))]), 0, {}, looks=5, connected=2)
    metrics = OperatorMetrics(lambda: shown, lambda: 1, lambda: {("create", "Pod"): 3})

    async def texts() -> tuple[str, str]:
        return metrics.own_text().decode(), (await metrics.text()).decode()

    own, whole = asyncio.run(texts())
    assert 'omnilearn_api_calls_total{kind="Pod",verb="create"} 3.0' in own
    assert "omnilearn_looks_total 5.0" in own
    assert "omnilearn_connections 2.0" in own
    assert 'job="' not in own
    assert whole.startswith(own.partition("process_virtual")[0])
    assert 'omnilearn_share{job="a",namespace="team",worker="job-a-0"} 32.0' in whole


def test_jobs_that_are_gone_leave_no_series() -> None:
    before = sum(len(each.samples) for each in series({tuple(A): view_of([member(0)])}, ("namespace", "job")))
    after = sum(len(each.samples) for each in series({}, ("namespace", "job")))
    assert (before > 0, after) == (True, 0)
