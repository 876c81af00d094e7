"""Whatever fails, and however often: the members agree, no model is lost, and the job goes on when faults end.

`World` has simulated workers that follow docs/protocol.md without training anything.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from coordination import SETTINGS, Simulated, join_of
from omnilearn_coordinator.membership import State, act, events, observe
from omnilearn_coordinator.membership.actions import Assign, Disconnect, Refuse, Release
from omnilearn_coordinator.membership.generation import Generation
from omnilearn_core.api.messages import Change, GenerationId
from situations import examples


class World:
    """Simulated workers around a membership; messages take their time, and everything may fail at any time."""

    tick = 0.05

    def __init__(self, seed: int, count: int, fewest: int) -> None:
        self.rng = random.Random(seed)
        self.now = 0.0
        self.settings = replace(SETTINGS, expected=count, most=count, fewest=fewest, join_timeout=4.0, silent_after=3.0)
        self.state = State(self.settings, "n1")
        self.workers = {f"w{k}": Simulated(f"w{k}", 0) for k in range(count)}
        self.connections = 0
        self.wire: list[tuple[float, Callable[[], None]]] = []
        self.pipes: dict[tuple[str, int], float] = {}
        self.known: dict[GenerationId, Generation] = {}
        self.agreed: dict[GenerationId, tuple[str, int]] = {}

    def run(self, seconds: float, faults: float = 0.0) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += self.tick
            if self.rng.random() < faults * self.tick:
                self._fault()
            self._deliver()
            for worker in list(self.workers.values()):
                if worker.frozen_since is None:
                    self._live(worker)
                elif worker.connection and self.now - worker.frozen_since > 1.5 * self.settings.silent_after:
                    self._hang_up(worker)  # the server's ping was not answered
            self._train()
            self._act()

    def is_whole(self) -> bool:
        """Tell whether all workers are in one generation, entered by all."""
        newest = self.state.newest
        return (
            newest is not None
            and newest.is_entered
            and self.state.standing is newest
            and set(newest.names) == set(self.workers)
            and all(w.current is not None and w.current.id == newest.id for w in self.workers.values())
        )

    def _act(self) -> None:
        held = {worker.name for worker in self.state.holders()}
        self.state, actions = act(self.state, self.now)
        for action in actions:
            match action:
                case Assign():
                    self._check(action.generation, held)
                    worker = self.workers[action.worker]
                    self._post(worker, "down", partial(self._assigned, worker, action.generation))
                case Release():
                    worker = self.workers[action.worker]
                    self._post(worker, "down", partial(self._restart, worker))
                case Disconnect() | Refuse():
                    worker = self.workers[action.worker]
                    if worker.connection == action.connection:
                        worker.connection, worker.back_at = None, self.now + self.rng.uniform(0.05, 0.5)
                case _:
                    pass

    def _check(self, generation: Generation, held: set[str]) -> None:
        known = self.known.setdefault(generation.id, generation)
        assert known.members == generation.members, "one id, two lists of members"
        if generation.change is Change.START:
            assert not held & set(self.state.workers), "a start although somebody holds the model"

    def _from(self, worker: Simulated, event: events.Event) -> None:
        self._post(worker, "up", lambda: self._observe(event))

    def _post(self, worker: Simulated, way: str, deliver: Callable[[], None]) -> None:
        """Send: in order on a connection, and lost with it on the way down."""
        connection = worker.connection
        if connection is None:
            return
        at = max(self.now + self.rng.uniform(0.0, 0.2), self.pipes.get((way, connection), 0.0))
        self.pipes[way, connection] = at

        def arrive() -> None:
            if way == "up" or worker.connection == connection:
                deliver()

        self.wire.append((at, arrive))

    def _observe(self, event: events.Event) -> None:
        self.state = observe(self.state, event, self.now)

    def _deliver(self) -> None:
        due = [item for item in self.wire if item[0] <= self.now]
        self.wire = [item for item in self.wire if item[0] > self.now]
        for _, deliver in sorted(due, key=lambda item: item[0]):
            deliver()

    def _live(self, worker: Simulated) -> None:
        if worker.connection is None:
            if self.now >= worker.back_at:
                self._connect(worker)
            return
        if self.now - worker.reported >= 1.0 and worker.newest is not None:
            worker.reported = self.now
            said = (worker.held or worker.newest).id
            self._from(worker, events.Heard(worker.name, worker.connection, said, worker.round))
        newest = worker.newest
        if newest is None or not worker.is_in(newest):
            return
        if newest.id not in worker.built and self._can_form(newest) and self.rng.random() < 0.5:
            worker.built.add(newest.id)
            self._from(worker, events.Built(worker.name, worker.connection, newest.id))
        if newest.id in worker.built and self._may_call(worker, newest):
            worker.calling, worker.current = newest, None

    def _may_call(self, worker: Simulated, newest: Generation) -> bool:
        is_new = worker.held is None or worker.held.number < newest.number
        return is_new and (newest.change is not Change.PLANNED or worker.current is None)

    def _can_form(self, generation: Generation) -> bool:
        return all(self._is_awake(m.worker, m.attempt, lambda w: w.newest is generation) for m in generation.members)

    def _is_awake(self, name: str, attempt: int, true: Callable[[Simulated], bool]) -> bool:
        worker = self.workers[name]
        return worker.attempt == attempt and worker.frozen_since is None and true(worker)

    def _assigned(self, worker: Simulated, generation: Generation) -> None:
        if worker.newest is not None and generation.number <= worker.newest.number:
            return
        worker.newest = generation
        worker.calling = None
        if generation.change is not Change.PLANNED:
            worker.current = None

    def _connect(self, worker: Simulated) -> None:
        self.connections += 1
        worker.connection = self.connections
        self._from(worker, events.Connected(worker.name, worker.connection, worker.attempt))
        last = worker.newest.number if worker.newest else 0
        join = join_of(worker.held, worker.round if worker.held else None, last)
        self._from(worker, events.Joined(worker.name, worker.connection, join))
        if worker.leaving:
            self._from(worker, events.Leaving(worker.name, worker.connection, "SIGTERM"))

    def _hang_up(self, worker: Simulated) -> None:
        if worker.connection is not None:
            self._from(worker, events.Closed(worker.name, worker.connection))
            worker.connection, worker.back_at = None, self.now + self.rng.uniform(0.05, 1.0)

    def _restart(self, worker: Simulated) -> None:
        self._hang_up(worker)
        new = Simulated(worker.name, worker.attempt + 1, back_at=self.now + self.rng.uniform(0.2, 4.0))
        self.workers[worker.name] = new

    def _train(self) -> None:
        seen: dict[GenerationId, Generation] = {}
        for worker in self.workers.values():
            for generation in (worker.current, worker.calling):
                if generation is not None:
                    seen[generation.id] = generation
        for generation in seen.values():
            self._roll_call(generation)
            self._round(generation)

    def _roll_call(self, generation: Generation) -> None:
        members = [self.workers[m.worker] for m in generation.members]
        if generation.id not in self.agreed:
            if not all(self._is_calling(m.worker, m.attempt, generation) for m in generation.members):
                return
            self.agreed[generation.id] = self._agree(generation, members)
        for worker in members:
            if self._is_calling(worker.name, worker.attempt, generation) and self.rng.random() < 0.5:
                worker.current, worker.calling, worker.held = generation, None, generation
                worker.origin, worker.round = self.agreed[generation.id]
                self._from(worker, events.Entered(worker.name, worker.connection or 0, generation.id, worker.round))

    def _agree(self, generation: Generation, members: list[Simulated]) -> tuple[str, int]:
        """Return which model the roll call finds, and check that it is the newest of its kind."""
        if generation.change is Change.START:
            return str(generation.id), 0
        old = [w for w in members if not w.is_fresh_in(generation)]
        assert len({w.origin.split("/")[0] for w in old}) == 1, "members that hold different models"
        top, origin = max((w.round, w.origin) for w in old)
        if generation.id.nonce != self.state.nonce:  # a thawed worker follows a coordinator that is no more
            return f"{origin}/{generation.id}", top
        reachable = [w for w in self.workers.values() if w.connection is not None and w.frozen_since is None]
        assert all(top >= w.round - 1 for w in reachable if w.origin == origin), "the newest model was lost"
        return origin, top

    def _is_calling(self, name: str, attempt: int, generation: Generation) -> bool:
        return self._is_awake(name, attempt, lambda w: w.calling is not None and w.calling.id == generation.id)

    def _round(self, generation: Generation) -> None:
        inside = [w for w in self.workers.values() if w.current is not None and w.current.id == generation.id]
        awake = [w for w in inside if w.frozen_since is None]
        if len(awake) == len(generation.members):
            top = max(w.round for w in awake) + 1
            for worker in awake:
                worker.round = top
            self._switch(awake, generation)
            return
        gone = [m for m in generation.members if self._has_left(m.worker, m.attempt, generation)]
        for worker in awake:
            if gone and generation.id not in worker.broke:
                worker.broke.add(generation.id)
                self._from(worker, events.Broken(worker.name, worker.connection or 0, generation.id, "peer gone"))
                if self.state.newest is not None and not worker.is_in(self.state.newest):
                    worker.current = None
            elif gone and worker.newest is not None and worker.is_fresh_in(worker.newest):
                worker.current = None

    def _has_left(self, name: str, attempt: int, generation: Generation) -> bool:
        worker = self.workers[name]
        return worker.attempt != attempt or (
            worker.frozen_since is None
            and (worker.current is None or worker.current.id != generation.id)
            and (worker.calling is None or worker.calling.id != generation.id)
        )

    def _switch(self, members: list[Simulated], generation: Generation) -> None:
        target = members[0].newest
        if target is None or target.change is not Change.PLANNED or target.number <= generation.number:
            return
        if all(w.newest is target and (target.id in w.built or not w.is_in(target)) for w in members):
            for worker in members:
                worker.current, worker.calling = None, target if worker.is_in(target) else None

    def _fault(self) -> None:
        worker = self.rng.choice(list(self.workers.values()))
        of_a_worker = [self._restart, self._hang_up, self._replace, self._freeze, self._leave, self._break]
        kind = self.rng.randrange(len(of_a_worker) + 2)
        if kind < len(of_a_worker):
            of_a_worker[kind](worker)
        elif kind == len(of_a_worker):
            self.thaw()
        else:
            self._restart_coordinator()

    def _replace(self, worker: Simulated) -> None:
        worker.connection, worker.back_at = None, self.now

    def _freeze(self, worker: Simulated) -> None:
        worker.frozen_since = worker.frozen_since or self.now

    def _leave(self, worker: Simulated) -> None:
        worker.leaving = True
        self._from(worker, events.Leaving(worker.name, worker.connection or 0, "SIGTERM"))

    def _break(self, worker: Simulated) -> None:
        if worker.current is not None:
            self._from(worker, events.Broken(worker.name, worker.connection or 0, worker.current.id, "a loose cable"))

    def _restart_coordinator(self) -> None:
        term = self.state.term + 1
        self.state = State(self.settings, f"n{term}", term)
        self.wire = []
        for worker in self.workers.values():
            worker.connection, worker.back_at = None, self.now + self.rng.uniform(0.05, 2.0)

    def thaw(self) -> None:
        for worker in self.workers.values():
            worker.frozen_since = None


@examples(60)
@given(st.integers(0, 2**32), st.integers(1, 5), st.data())
def test_all_live_workers_train_together_soon_after_the_last_fault(seed: int, count: int, data: st.DataObject) -> None:
    world = World(seed, count, data.draw(st.integers(1, count)))
    world.run(15.0, faults=data.draw(st.sampled_from([0.2, 0.7, 2.0])))
    world.thaw()
    for _ in range(24):
        world.run(5.0)
        if world.is_whole():
            break
    assert world.state.outcome is None
    assert world.is_whole()
    before = world.state.step
    world.run(3.0)
    assert world.state.step > before
