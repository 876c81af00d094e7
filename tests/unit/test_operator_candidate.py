"""One replica and a Lease in memory: taking, keeping and giving back."""

from __future__ import annotations

import asyncio

import pytest

from leases import NAME, Clock, LeaseApi, candidate, run, until
from omnilearn_operator.api import ApiError, Manifest
from omnilearn_operator.candidate import lease_of
from omnilearn_operator.leadership import Lease
from omnilearn_operator.running import identity
from omnilearn_operator.settings import OperatorSettings


def test_the_first_one_makes_the_lease_and_leads() -> None:
    async def scene(api: LeaseApi) -> None:
        reign = await candidate(api, "a").take()
        assert reign.holds()
        assert (api.lease.holder, api.lease.reign, api.lease.seconds) == ("a", reign.number, 1.0)

    spec = run(scene).objects["Lease", NAME]["spec"]
    assert spec["acquireTime"] == spec["renewTime"]
    assert spec["acquireTime"].endswith("Z")


def test_a_second_one_waits_while_the_first_renews_and_takes_over_when_it_is_gone() -> None:
    async def scene(api: LeaseApi) -> None:
        first, second = candidate(api, "a"), candidate(api, "b")
        reign = await first.take()
        keeping = asyncio.create_task(first.keep(reign))
        waiting = asyncio.create_task(second.take())
        await until(lambda: int(api.lease.version) > 8)
        assert second.informed
        assert not waiting.done()
        keeping.cancel()
        follower = await waiting
        assert follower.number > reign.number
        assert not reign.holds()
        assert api.lease.holder == "b"

    run(scene)


def test_a_lease_that_is_given_back_is_taken_at_once() -> None:
    async def scene(api: LeaseApi) -> None:
        first, second = candidate(api, "a"), candidate(api, "b")
        await first.take()
        waiting = asyncio.create_task(second.take())
        await until(lambda: second.informed)
        clock = asyncio.get_running_loop().time
        began = clock()
        await first.step_down()
        await waiting
        assert clock() - began < 0.5

    run(scene)


def test_a_lease_is_given_back_although_the_last_renewal_was_on_its_way() -> None:
    async def scene(api: LeaseApi) -> None:
        first = candidate(api, "a")
        await first.take()
        await api.patch("Lease", "system", NAME, {"metadata": {}, "spec": {"renewTime": "later"}})
        await first.step_down()
        assert api.lease.holder == ""

    run(scene)


def test_what_another_one_has_by_now_is_not_given_back() -> None:
    async def scene(api: LeaseApi) -> None:
        first = candidate(api, "a")
        await first.take()
        await api.patch("Lease", "system", NAME, {"metadata": {}, "spec": {"holderIdentity": "b"}})
        await first.step_down()
        assert api.lease.holder == "b"

    run(scene)


def test_a_leader_that_cannot_renew_stops_and_leads_again_when_it_can() -> None:
    async def scene(api: LeaseApi) -> None:
        only = candidate(api, "a")
        reign = await only.take()
        api.away = True
        assert await only.keep(reign) == "the Lease could not be renewed within 0.7 s"
        assert not reign.holds()
        waiting = asyncio.create_task(only.take())
        await asyncio.wait({waiting}, timeout=0.5)
        assert not waiting.done()
        api.away = False
        again = await waiting
        assert (again.number, only.reigns) == (reign.number + 1, 2)

    run(scene)


def test_a_leader_that_was_frozen_knows_it_before_it_does_anything() -> None:
    async def scene(api: LeaseApi) -> None:
        clock = Clock()
        first = candidate(api, "a", clock)
        reign = await first.take()
        clock.ahead = 60.0
        assert not reign.holds()
        clock.ahead = 0.0
        assert not reign.holds()
        assert await first.keep(reign) == "its time was over before the Lease was renewed"

    run(scene)


@pytest.mark.parametrize(
    ("change", "why"),
    [({"holderIdentity": "b"}, "b has the Lease"), ({"leaseTransitions": 7}, "a has the Lease")],
)
def test_a_leader_whose_lease_another_process_has_taken_stops(change: Manifest, why: str) -> None:
    async def scene(api: LeaseApi) -> None:
        first = candidate(api, "a")
        reign = await first.take()
        await api.patch("Lease", "system", NAME, {"metadata": {}, "spec": change})
        assert await first.keep(reign) == why

    run(scene)


def test_a_leader_whose_lease_was_deleted_stops() -> None:
    async def scene(api: LeaseApi) -> None:
        first = candidate(api, "a")
        reign = await first.take()
        del api.objects["Lease", NAME]
        assert await first.keep(reign) == "the Lease was deleted"

    run(scene)


def test_a_replica_that_may_not_write_says_so_once_and_keeps_trying(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(api: LeaseApi) -> None:
        api.answers["create", "Lease"] = ApiError(403, "Forbidden", "leases is forbidden")
        waiting = asyncio.create_task(candidate(api, "a").take())
        await until(lambda: len(api.did("create", "Lease")) > 2)
        waiting.cancel()

    run(scene)
    assert [record.message for record in caplog.records].count(
        "the Lease system/omnilearn-operator: leases is forbidden"
    ) == len([record for record in caplog.records if record.levelname == "WARNING"])


@pytest.mark.parametrize(
    ("manifest", "lease"),
    [
        ({"metadata": {"resourceVersion": "3"}}, Lease("3")),
        ({"metadata": {"resourceVersion": "3"}, "spec": {"leaseTransitions": 2**31 - 1}}, Lease("3")),
        ({"metadata": {"resourceVersion": "3"}, "spec": {"holderIdentity": "x", "leaseTransitions": 4}},
         Lease("3", "x", 4)),
    ],
    ids=["made by hand", "a number that nobody of us has written", "without a time"],
)  # fmt: skip
def test_any_lease_can_be_read(manifest: Manifest, lease: Lease) -> None:
    assert lease_of(manifest) == lease


def test_a_pod_has_one_name_for_all_its_processes_and_others_have_one_each() -> None:
    inside = OperatorSettings("system", pod="operator-x", pod_uid="123")
    assert identity(inside) == identity(inside) == "operator-x_123"
    assert identity(OperatorSettings("system")) != identity(OperatorSettings("system"))
