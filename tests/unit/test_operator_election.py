"""Several replicas, one Lease, and all that can go wrong between them: never two decide, and soon somebody does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from election import DRIFT, RESTART_SECONDS, World
from omnilearn_operator.leadership import Timing

# The Lease by the slowest clock. Who waits has last seen it change up to a look later; at the worst after a restart.
_LEASE, _LOOK = Timing().lease / (1 - DRIFT), Timing().look / (1 - DRIFT)
_AFTER_A_DEATH = _LEASE + _LOOK + 0.2
_AFTER_FAULTS = RESTART_SECONDS + _LEASE + _LOOK + 0.2


def troubled(world: World, seconds: float, faults: int) -> None:
    """Let a world have trouble for a while."""
    world.faulty = True
    for _ in range(faults):
        world.at(world.now + world.random.uniform(0, seconds), world.trouble)
    world.run_until(world.now + seconds)
    world.faulty = False


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32), replicas=st.integers(2, 3), faults=st.integers(0, 40))
def test_never_two_decide_whatever_happens(seed: int, replicas: int, faults: int) -> None:
    world = World(seed, replicas)
    troubled(world, 120.0, faults)
    world.run_until(world.now + 60.0)
    assert world.overlaps == []
    assert world.server.reigns == sorted(set(world.server.reigns))


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32), faults=st.integers(0, 40))
def test_somebody_decides_again_soon_after_the_faults_end_and_goes_on(seed: int, faults: int) -> None:
    world = World(seed)
    world.latest = 60.0
    troubled(world, 60.0, faults)
    ended = world.now
    world.run_until(ended + 60.0, lambda: bool(world.deciding()))
    assert world.now - ended < _AFTER_FAULTS
    world.run_until(ended + 40.0)
    leader, reigns = world.deciding(), list(world.server.reigns)
    assert len(leader) == 1
    world.run_until(ended + 100.0)
    assert (world.deciding(), world.server.reigns) == (leader, reigns)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), after=st.floats(20, 30))
def test_another_takes_over_from_a_leader_that_is_gone_without_a_word(seed: int, after: float) -> None:
    world = World(seed)
    world.run_until(after)
    (leader,) = [each for each in world.replicas if each.name in world.deciding()]
    world.freeze(leader, 1e9)
    world.run_until(after + 60.0, lambda: bool({*world.deciding()} - {leader.name}))
    assert world.now - after < _AFTER_A_DEATH


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32), after=st.floats(20, 30))
def test_another_takes_over_at_once_from_a_leader_that_gives_the_lease_back(seed: int, after: float) -> None:
    world = World(seed)
    world.run_until(after)
    (leader,) = [each for each in world.replicas if each.name in world.deciding()]
    world.release(leader)
    world.run_until(after + 60.0, lambda: bool(world.deciding()))
    assert world.now - after < _LOOK + 0.1


class TooLong(Timing):
    """A holder that goes on until the Lease is over by its own clock, which may be the slower one."""

    @property
    def deadline(self) -> float:
        return 1.2 * self.lease


def test_the_simulation_would_notice_a_holder_that_goes_on_for_too_long() -> None:
    for seed in range(200):
        world = World(seed, timing=TooLong())
        troubled(world, 120.0, 20)
        if world.overlaps:
            return
    pytest.fail("no overlap was found")
