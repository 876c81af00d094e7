"""What becomes of gradients as they arrive: each policy against the algorithm of its paper, in float64."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import staleness
from omnilearn_core.api.strategy import Asynchronous, Staleness
from omnilearn_runtime.asynchronous.policies import (
    Action,
    Apply,
    Discard,
    Empty,
    Fold,
    Issue,
    Policy,
    Rename,
    Slot,
    policy_of,
)
from staleness import RATE, begin

KINDS = [
    Asynchronous(staleness=kind, bound=bound)
    for kind in Staleness
    for bound in ([1, 2, 3, 5, 20] if kind.has_bound else [None])
]
UPDATES = 400


def named(options: Asynchronous) -> str:
    return f"{options.staleness}-{options.bound}"


@dataclass
class Shell:
    """Does to small tensors what a policy says, and writes down what happened."""

    policy: Policy
    names: list[str]
    order: list[str] = field(default_factory=list)
    delays: list[int] = field(default_factory=list)
    discarded: list[str] = field(default_factory=list)
    used: dict[str, int] = field(default_factory=dict)
    oldest: int = 0

    def __post_init__(self) -> None:
        self.workers, self.x, _ = begin(self.names)
        self.slots: dict[Slot, list[tuple[Tensor, int, str]]] = {}
        self.gradients: dict[str, tuple[Tensor, int]] = {}
        self.computing: dict[str, int] = {}
        self.policy.members = len(self.names)
        for name in self.names:
            self._issue(name)

    def _issue(self, name: str) -> None:
        self.workers.hand(name, self.x)
        self.computing[name] = self.policy.version
        self.policy.begin(name)

    def arrive(self, name: str) -> None:
        self.order.append(name)
        self.gradients[name] = (self.workers.gradient(name), self.computing.pop(name))
        self.do(self.policy.arrive(name))

    def do(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Fold(name, slot, delay):
                    self.delays.append(delay)
                    self.slots.setdefault(slot, []).append((*self.gradients.pop(name), name))
                case Discard(name, _):
                    self.gradients.pop(name)
                    self.discarded.append(name)
                case Apply(slots, rate):
                    self._apply(slots, rate)
                case Empty(slot):
                    self.slots.pop(slot)
                case Rename(old, new):
                    assert new not in self.slots
                    self.slots[new] = self.slots.pop(old)
                case Issue(name):
                    self._issue(name)

    def _apply(self, slots: tuple[Slot, ...], rate: float) -> None:
        means = [sum(g for g, _, _ in self.slots[slot]) / len(self.slots[slot]) for slot in slots]
        self.x = self.x - RATE * rate * sum(means, torch.zeros(staleness.SIZE)) / len(slots)
        # The policy counts ahead of its actions by one here.
        self.oldest = max([self.oldest, *(self.updates - at for slot in slots for _, at, _ in self.slots[slot])])
        self.updates += 1

    updates: int = 0


def play(options: Asynchronous, count: int, seed: int, arrivals: int = UPDATES) -> Shell:
    """Let workers of unlike speeds send so many gradients."""
    names = [str(number) for number in range(count)]
    shell, draw = Shell(policy_of(options), names), random.Random(seed)
    weights = {name: draw.choice([1, 1, 2, 8]) for name in names}
    for _ in range(arrivals):
        free = sorted(shell.computing)
        assert free, "nobody computes: everybody waits"
        shell.arrive(draw.choices(free, [weights[name] for name in free])[0])
    return shell


@pytest.mark.parametrize("options", KINDS, ids=named)
@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_a_policy_does_what_its_paper_says(options: Asynchronous, count: int) -> None:
    shell = play(options, count, seed=count)
    names, order, bound = shell.names, shell.order, options.bound or count
    match options.staleness:
        case Staleness.UNBOUNDED:
            expected, number = staleness.asynchronous(names, order)
        case Staleness.DELAY_ADAPTIVE:
            expected, number = staleness.delay_adaptive(names, order)
        case Staleness.RINGMASTER:
            expected, number = staleness.ringmaster(names, order, bound)
        case Staleness.RENNALA:
            expected, number = staleness.rennala(names, order, bound)
        case Staleness.RINGLEADER:
            expected, largest = staleness.ringleader(names, order)
            assert shell.oldest == largest <= 2 * count - 2
            number = 0
        case Staleness.BOUNDED:  # it has a test of its own
            return
    assert float((shell.x - expected).abs().max()) < 1e-10
    assert len(shell.discarded) == number
    assert shell.updates == shell.policy.version


@pytest.mark.parametrize("options", KINDS, ids=named)
def test_one_worker_is_plain_sgd(options: Asynchronous) -> None:
    if options.staleness is Staleness.RENNALA:  # its update is the mean of several gradients
        options = options.model_copy(update={"bound": 1})
    shell = play(options, 1, seed=0)
    assert float((shell.x - staleness.asynchronous(["0"], ["0"] * UPDATES)[0]).abs().max()) < 1e-10
    assert set(shell.delays) == {0}


@settings(deadline=None)
@given(bound=st.integers(1, 12), count=st.integers(1, 7), seed=st.integers(0, 2**16))
def test_bounded_keeps_every_delay_within_the_bound_discards_nothing_and_never_stops(
    bound: int, count: int, seed: int
) -> None:
    shell = play(Asynchronous(staleness=Staleness.BOUNDED, bound=bound), count, seed, 120)
    assert max(shell.delays) <= max(bound, count - 1)
    assert not shell.discarded
    assert shell.updates + len(shell.gradients) == 120


def test_whoever_is_far_ahead_waits_for_the_slowest() -> None:
    shell = Shell(policy_of(Asynchronous(staleness=Staleness.BOUNDED, bound=3)), ["0", "1"])
    for _ in range(3):
        shell.arrive("0")
    assert shell.computing.keys() == {"0", "1"}
    shell.arrive("0")
    assert shell.computing.keys() == {"1"}
    shell.arrive("1")
    assert shell.computing.keys() == {"0", "1"}
    assert shell.delays == [0, 0, 0, 3, 1]


@settings(deadline=None)
@given(
    options=st.sampled_from(KINDS),
    count=st.integers(1, 6),
    seed=st.integers(0, 2**16),
    happenings=st.lists(st.sampled_from(["arrive"] * 6 + ["leave", "join"]), max_size=80),
)
def test_every_gradient_is_used_or_discarded_whoever_comes_and_goes(
    options: Asynchronous, count: int, seed: int, happenings: list[str]
) -> None:
    draw = random.Random(seed)
    shell = Shell(policy_of(options), [str(number) for number in range(count)])
    fresh, arrived = count, 0
    for happening in happenings:
        if happening == "join":
            shell.policy.members = len(shell.computing) + len(shell.gradients) + 1
            shell._issue(str(fresh))
            fresh += 1
        elif shell.computing:
            name = draw.choice(sorted(shell.computing))
            if happening == "leave":
                del shell.computing[name]
                shell.do(shell.policy.leave(name))
            else:
                shell.arrive(name)
                arrived += 1
    for name in sorted(shell.computing):  # the end: what is still being computed is given back
        del shell.computing[name]
        shell.do(shell.policy.leave(name))
    shell.do(shell.policy.flush())
    assert not shell.gradients
    assert not shell.slots
    assert len(shell.delays) + len(shell.discarded) == arrived
