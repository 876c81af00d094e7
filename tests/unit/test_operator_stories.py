"""Short histories that must end well: those that once did not, and what users of similar systems complain of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from histories import World
from histories.front import Trouble
from histories.store import is_over, runs, uid_of, worker_of
from histories.watching import Order
from omnilearn_operator.api import Manifest


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    made.starts()
    yield made
    assert made.witness.violations == []
    made.close()


def running(world: World, replicas: int = 2, **spec: Any) -> World:
    world.creates("job", replicas, **spec)
    assert world.settles() == ""
    return world


def live(world: World) -> dict[str, str]:
    """Return the UIDs of the pods that are well, by worker."""
    return {worker_of(pod): uid_of(pod) for pod in world.pods("job") if not is_over(pod)}


def status(world: World) -> Manifest:
    found = world.store.job("job")
    assert found is not None
    made: Manifest = found.get("status", {})
    return made


def counts(world: World) -> tuple[int, int]:
    """Return the failures and preemptions that the status shows."""
    workers = status(world)["workers"]
    return workers["failures"], workers["preemptions"]


def created(world: World) -> int:
    return world.witness.writes["create Pod"]


# What once went wrong


@pytest.mark.parametrize("status", [409, 429, 500])
def test_a_pod_that_fails_while_its_deletion_is_refused_is_a_failure(world: World, status: int) -> None:
    running(world)
    world.line.troubles["delete"] = Trouble.REFUSED, status, 6
    world.edits("job", lambda spec: spec["workers"][0].update(replicas=1))
    world.passes(0.3)
    for number in range(2):
        world.ends(number, 1)
    world.passes(15.0)
    world.calms()
    assert (world.settles(), world.witness.uncounted()) == ("", "")
    assert counts(world) == (2, 0)


def test_a_job_whose_deletion_went_unheard_gets_no_pods(world: World) -> None:
    running(world)
    world.holds()
    world.deletes("job")
    world.loses_watches()
    world.passes(120.0)
    assert (created(world), world.store.pods()) == (2, [])


def test_news_in_the_wrong_order_brings_back_no_former_spec(world: World) -> None:
    before = live(running(world, 3))
    world.holds()
    for replicas in (1, 3):
        world.edits("job", lambda spec, count=replicas: spec["workers"][0].update(replicas=count))  # type: ignore[misc]
    world.tells(Order.WRONG)
    world.passes(20.0)
    assert live(world) == before


def test_a_job_that_changes_its_workers_has_never_too_many_pods(world: World) -> None:
    running(world, 2, others=1)

    def change(spec: Manifest) -> None:
        spec["workers"][1].update(replicas=2, minReplicas=2)
        spec["membership"].update(maxWorkers=2)

    world.edits("job", change)
    assert world.settles() == ""
    assert sorted(live(world)) == ["job-b-0", "job-b-1"]


@pytest.mark.parametrize("skew", [-3600.0, 0.0, 3600.0])
@pytest.mark.parametrize("weather", [{"rejects": True}, {"crash": 1}, {"crash": 75}, {"crash": 143}], ids=str)
def test_what_comes_to_nothing_is_tried_ever_more_rarely(world: World, weather: dict[str, Any], skew: float) -> None:
    for name, value in (weather | {"skew": skew}).items():
        setattr(world.nodes.weather, name, value)
    world.creates("job", 1, restart={"maxFailures": 1000})
    world.passes(60.0)
    in_a_minute = created(world)
    world.passes(240.0)
    assert 4 <= in_a_minute <= 7
    assert 3 <= created(world) - in_a_minute <= 5


def test_a_worker_that_went_with_the_operator_comes_back_under_a_new_name(world: World) -> None:
    running(world, 1)
    world.dies()
    world.evicts(0)
    world.passes(10.0)
    world.starts()
    assert world.settles() == ""
    assert [pod["metadata"]["name"] for pod in world.pods("job")] == ["job-a-0-1"]


def test_a_job_that_was_created_again_has_no_past(world: World) -> None:
    running(world, 2, restart={"maxFailures": 50})
    world.line.seconds = 1.0
    world.ends(0, 1)
    world.passes(0.3)  # the status with the failure is on its way
    world.deletes("job")
    world.creates("job", 2)
    world.line.seconds = 0.01
    assert world.settles() == ""
    assert counts(world) == (0, 0)


def test_a_status_whose_answer_was_lost_does_not_stay(world: World) -> None:
    running(world, 2)
    world.line.troubles["status"] = Trouble.LOST, 500, 100
    world.edits("job", lambda spec: spec["workers"][0].update(replicas=1))
    world.passes(5.0)
    assert status(world)["workers"]["desired"] == 1
    world.edits("job", lambda spec: spec["workers"][0].update(replicas=2))
    world.passes(30.0)
    world.line.troubles.clear()
    assert world.settles() == ""


# What users of similar systems complain of


def test_who_stays_when_a_job_shrinks_or_grows_is_not_restarted(world: World) -> None:
    before = live(running(world, 4))
    for replicas in (2, 3):
        world.edits("job", lambda spec, count=replicas: spec["workers"][0].update(replicas=count))  # type: ignore[misc]
        assert world.settles() == ""
    kept = live(world)
    assert sum(before.get(worker) == uid for worker, uid in kept.items()) == 2


def test_no_number_of_evictions_is_a_failure(world: World) -> None:
    running(world, 2, restart={"maxFailures": 0})
    for number in range(12):
        (world.evicts, world.presses, world.loses, world.deletes_pod)[number % 4](number)
        world.passes(20.0)
    world.calms()
    assert world.settles() == ""
    assert counts(world) == (0, 12)


def test_what_the_operator_deletes_itself_counts_as_nothing(world: World) -> None:
    running(world, 3, restart={"maxFailures": 0})
    world.nodes.weather.last_code = 1
    for image in ("next", "newest"):
        world.edits("job", lambda spec, image=image: _trainer(spec).update(image=image))  # type: ignore[misc]
        assert world.settles() == ""
    assert (counts(world), created(world)) == ((0, 0), 9)


def _trainer(spec: Manifest) -> Manifest:
    found: Manifest = spec["workers"][0]["template"]["spec"]["containers"][0]
    return found


@pytest.mark.parametrize("restarts", [False, True])
def test_a_job_fails_after_just_as_many_failures_as_it_may_have(world: World, restarts: bool) -> None:
    running(world, 2, restart={"maxFailures": 3})
    for _ in range(4):
        assert status(world)["phase"] == "Running"
        world.ends(0, 1)
        world.passes(3.0)
        if restarts:
            world.dies()
            world.starts()
        world.passes(30.0)
    assert (status(world)["phase"], counts(world), live(world)) == ("Failed", (4, 0), {})


def test_thirty_pods_that_are_deleted_are_back_within_seconds(world: World) -> None:
    running(world, 32)
    for _ in range(30):
        world.deletes_pod(0)
    world.passes(5.0)
    assert sum(map(runs, world.pods("job"))) >= 32


def test_a_pod_that_finds_no_place_disturbs_nobody(world: World) -> None:
    before = live(running(world, 2))
    world.nodes.weather.is_full = True
    world.edits("job", lambda spec: spec["workers"][0].update(replicas=3))
    world.passes(300.0)
    assert {worker: uid for worker, uid in live(world).items() if worker in before} == before
    assert (created(world), status(world)["phase"]) == (3, "Running")
    assert "Insufficient cpu" in str(status(world)["conditions"])


def test_whoever_does_not_run_yet_goes_first(world: World) -> None:
    before = live(running(world, 2))
    world.nodes.weather.is_full = True
    world.edits("job", lambda spec: spec["workers"][0].update(replicas=3))
    world.passes(10.0)
    world.edits("job", lambda spec: spec["workers"][0].update(replicas=2))
    assert world.settles() == ""
    assert live(world) == before


def test_a_job_that_has_lost_its_only_worker_waits_and_goes_on(world: World) -> None:
    running(world, 1)
    world.nodes.weather.is_full = True
    world.evicts(0)
    world.passes(60.0)
    assert status(world)["phase"] == "Waiting"
    world.calms()
    assert (world.settles(), status(world)["phase"]) == ("", "Running")


def test_the_phase_says_running_after_a_pause(world: World) -> None:
    running(world)
    for suspend, phase in ((True, "Suspended"), (False, "Running")):
        world.edits("job", lambda spec, suspend=suspend: spec.update(suspend=suspend))  # type: ignore[misc]
        assert (world.settles(), status(world)["phase"]) == ("", phase)


def test_a_quota_is_told_and_costs_nothing_but_time(world: World) -> None:
    world.store.quota = 1
    world.creates("job", 3)
    world.passes(120.0)
    assert (len(live(world)), "exceeded quota" in str(status(world)["conditions"])) == (1, True)
    world.store.quota = None
    assert (world.settles(), created(world)) == ("", 3)


def test_a_new_operator_leaves_everything_as_it_is(world: World) -> None:
    before = live(running(world, 3))
    writes = created(world)
    for _ in range(5):
        world.dies()
        world.starts()
        world.passes(7.0)
    assert (live(world), created(world)) == (before, writes)


def test_a_minute_without_the_api_server_changes_nothing(world: World) -> None:
    before = live(running(world, 3))
    world.line.away = True
    world.holds()
    world.passes(60.0)
    world.line.away = False
    world.loses_watches()
    assert world.stays_quiet() == ""
    assert (live(world), created(world)) == (before, 3)


def test_the_status_of_many_workers_stays_small(world: World) -> None:
    running(world, 256)
    for _ in range(256):
        world.deletes_pod(0)
    assert world.settles() == ""
    assert len(str(status(world))) < 32_000


def test_what_waits_for_room_goes_when_its_job_has_failed(world: World) -> None:
    world.nodes.weather.is_full = True
    world.creates("job", 1, startupDeadlineSeconds=7)
    world.passes(9.5)
    assert status(world)["phase"] == "Failed"
    assert world.pods("job") == []
