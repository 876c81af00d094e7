"""Short histories of an operator that hears too little: deaf watches, lost answers, calls that fail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from histories import World
from histories.front import Trouble
from histories.store import is_over
from histories.watching import Order


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    made.starts()
    yield made
    assert made.witness.violations == []
    made.close()


def running(world: World, replicas: int) -> None:
    world.creates("job", replicas)
    assert world.settles() == ""


def live(world: World) -> list[str]:
    """Return the names of the pods that are well."""
    return sorted(str(pod["metadata"]["name"]) for pod in world.pods("job") if not is_over(pod))


def created(world: World) -> int:
    return world.witness.writes["create Pod"]


@pytest.mark.parametrize("force", [False, True])
def test_a_watch_that_is_deaf_delays_a_replacement_by_seconds(world: World, force: bool) -> None:
    running(world, 2)
    world.passes(10.0)
    world.holds()
    world.deletes_pod(0, force=force)
    world.passes(15.0)
    assert (created(world), len(live(world))) == (3, 2)
    world.tells(Order.TWICE)
    assert (world.settles(), created(world)) == ("", 3)


@pytest.mark.parametrize("status", [0, 500, 504])
def test_pods_whose_creation_was_not_answered_are_there_once(world: World, status: int) -> None:
    world.line.troubles["create"] = Trouble.LOST, status, 100
    world.creates("job", 3)
    world.passes(0.05)
    world.holds()  # only the operator's own questions tell that they are there
    world.passes(30.0)
    world.line.troubles.clear()
    world.tells(Order.RIGHT)
    assert (world.settles(), created(world)) == ("", 3)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_few_calls_that_fail_cost_a_moment_and_no_word(world: World, status: int) -> None:
    for verb in ("try", "create", "Service", "NetworkPolicy"):
        world.line.troubles[verb] = Trouble.REFUSED, status, 2
    world.creates("job", 2)
    world.passes(6.0)
    assert len(live(world)) == 2
    assert "PodRefused" not in str(world.store.job("job"))


def test_a_pod_that_goes_while_an_operator_begins_is_missed_within_seconds(world: World) -> None:
    running(world, 2)
    world.dies()
    world.line.seconds = 1.0
    world.starts()
    world.passes(1.8)  # it has asked for all pods, and does not watch yet
    world.deletes_pod(0, force=True)
    world.line.seconds = 0.01
    world.passes(15.0)
    assert live(world) == ["job-a-0-1", "job-a-1-0"]
