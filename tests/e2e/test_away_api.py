"""The operator behind an API server that is away for a minute, or slow: a proxy does that to the real one."""

from __future__ import annotations

import time

from faulty_api import Fault

from .apart import JOB, epoch, kept
from .beside import LEASE_SECONDS, Beside
from .jobs import tiny

_AWAY_SECONDS = 60.0


def test_an_api_server_that_is_away_for_long_costs_neither_a_step_nor_a_pod(it: Beside) -> None:
    before, trained, created = kept(it.kube), epoch(it.kube), len(it.proxy.seen.created)
    deleted, adopted = it.proxy.seen.count("delete", "pods"), it.operator.log.count("goes on under this coordinator")
    it.proxy.go_away()
    began = time.monotonic()
    try:
        it.operator.until("it leads no more", lambda: not it.operator.leads(), LEASE_SECONDS)
        it.kube.until("they train on", lambda: epoch(it.kube) >= trained + 3, _AWAY_SECONDS)
        trained = epoch(it.kube)
        time.sleep(max(0.0, began + _AWAY_SECONDS - time.monotonic()))
        assert epoch(it.kube) > trained
    finally:
        it.proxy.come_back()
    it.operator.until("it leads", it.operator.leads, 60)
    goes_on = "goes on under this coordinator"
    it.operator.until("it has taken over", lambda: it.operator.log.count(goes_on) > adopted, 60)
    step = it.kube.status(JOB).get("step", 0)  # of a job that has just begun, nothing may be written yet
    it.kube.until("the status moves", lambda: it.kube.status(JOB).get("step", 0) > step, 60)
    assert kept(it.kube) == before
    pods = [name for resource, name in it.proxy.seen.created[created:] if resource == "pods"]
    assert (pods, it.proxy.seen.count("delete", "pods")) == ([], deleted)


def test_where_every_answer_takes_two_seconds_a_job_starts_and_completes(it: Beside) -> None:
    it.proxy.faults = (Fault(status=200, seconds=2.0),)
    it.kube.apply(tiny("slow"))
    it.kube.until("complete", lambda: it.kube.condition("slow", "Complete").get("status") == "True", 120)
    assert [name for name in it.proxy.seen.pods() if name.startswith("slow-")] == ["slow-a-0-0"]
