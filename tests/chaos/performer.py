"""Plays the faults, one after the other: strikes, waits until the survivors step again, and makes the job whole."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Awaitable, Callable, Sequence

from omnilearn_runtime.faults import Deed, Point

from .arena import SILENT_AFTER, Arena
from .processes import Running
from .sequence import Fault, Scene
from .verdict import Recovery

KILL_LIMIT = 5.0
FREEZE_LIMIT = max(SILENT_AFTER, 5.0) + 5.0
_POINT_LIMIT = 15.0
_LEAVE_LIMIT = 10.0


class Performer:
    """Plays faults in an arena; the witness is neither ended nor frozen for long, so that it lives through all."""

    def __init__(self, arena: Arena, chance: random.Random, witness: str) -> None:
        self._arena, self._chance = arena, chance
        self._witness = witness
        self.recoveries: list[Recovery] = []

    async def play(self, fault: Fault) -> None:
        """Play one scene; afterwards the job is whole."""
        arena, begun = self._arena, time.time()
        await arena.pause(self._chance, 0.15)
        arena.note(f"--- {fault}")
        before = len(self.recoveries)
        await self._scenes()[fault.scene](fault)
        await arena.until_whole(str(fault))
        took = time.time() - begun
        arena.note(f"whole after {took:.2f} s; recovered {[r.to_commit for r in self.recoveries[before:]]}")

    def _scenes(self) -> dict[Scene, Callable[[Fault], Awaitable[None]]]:
        return {
            Scene.KILL: self._kill,
            Scene.KILL_TWO: self._kill,
            Scene.FREEZE_BRIEFLY: self._freeze_briefly,
            Scene.FREEZE: self._freeze,
            Scene.TERMINATE: self._terminate,
            Scene.STEPPING: self._while_stepping,
            Scene.JOINING: self._while_joining,
            Scene.CHANGING: self._while_changing,
            Scene.LEAVING: self._while_leaving,
            Scene.COORDINATOR: self._coordinator,
            Scene.COORDINATOR_AND_KILL: self._coordinator_and_kill,
            Scene.COORDINATOR_AND_JOIN: self._coordinator_and_join,
            Scene.CUT: self._cut,
            Scene.REPLACE: self._replace,
        }

    # Whom

    async def _victims(self, count: int, *, lowest: bool, fatal: bool = True) -> list[Running]:
        """Choose members to hit: the lowest rank if it is asked for, never the witness with something fatal."""
        arena = self._arena
        if lowest and fatal and arena.ranks()[0].name == self._witness:
            # Whoever was cut off comes back as the last in rank.
            arena.cut(self._witness)
            await arena.until(lambda: arena.ranks()[0].name != self._witness, _POINT_LIMIT, "another rank 0")
            await arena.until_whole("the witness was cut off to have another rank 0")
        ranks = [worker for worker in arena.ranks() if not fatal or worker.name != self._witness]
        if lowest:
            return [ranks[0], *self._chance.sample(ranks[1:], count - 1)]
        return self._chance.sample(ranks, count)

    def _others(self, victims: Sequence[Running]) -> list[Running]:
        return [w for w in self._arena.workers.values() if w.alive and w.stopped is None and w not in victims]

    # What follows

    async def _down(self, victims: Sequence[Running], what: str) -> float:
        """Wait until the victims have ended or are frozen; return when the last one was."""
        await self._arena.until(lambda: all(w.down is not None for w in victims), _POINT_LIMIT, f"hit: {what}")
        return max(w.down or 0.0 for w in victims)

    async def _recovered(self, victims: Sequence[Running], generation: int, since: float, fault: Fault) -> None:
        """Wait until all others have committed in a newer generation; take the time of the first of them."""
        arena, others = self._arena, self._others(victims)
        frozen = any(w.stopped is not None for w in victims)
        limit = FREEZE_LIMIT if frozen else KILL_LIMIT

        def stepping() -> bool:
            return all((last := w.last) is not None and last.generation > generation for w in others)

        await arena.until(stepping, limit, f"the survivors step again after: {fault}")
        firsts = [next(c for c in w.commits if c.generation > generation) for w in others]
        first = min(firsts, key=lambda commit: commit.time)
        raw = max(first.time - since, 0.0)
        killed = all(w.code in (None, -signal.SIGKILL) for w in victims)
        kind = "silence" if frozen else "death" if killed else "failure"
        self.recoveries.append(Recovery(str(fault), kind, round(raw, 4), round(max(raw - first.busy, 0.0), 4)))

    async def _back(self, victims: Sequence[Running]) -> None:
        """Thaw the frozen and start the dead anew; all at once, so that two join together."""
        for worker in victims:
            if not worker.alive:
                await self._arena.spawn(worker.name)
            elif worker.stopped is not None:
                worker.signal(signal.SIGCONT)

    async def _lose(self, victims: Sequence[Running], generation: int, fault: Fault) -> None:
        """Deal with victims that are being lost, until they are on their way back."""
        since = await self._down(victims, str(fault))
        frozen = any(w.stopped is not None for w in victims)
        if fault.at_once and not frozen:
            await self._back(victims)
            newcomers = [self._arena.workers[w.name] for w in victims]
            await self._recovered([*victims, *newcomers], generation, since, fault)
        else:
            await self._recovered(victims, generation, since, fault)
            await self._back(victims)

    # Scenes

    async def _kill(self, fault: Fault) -> None:
        victims = await self._victims(fault.count, lowest=fault.lowest)
        generation = self._arena.generation()
        for worker in victims:
            worker.signal(signal.SIGKILL)
        await self._lose(victims, generation, fault)

    async def _freeze_briefly(self, fault: Fault) -> None:
        (victim,) = await self._victims(1, lowest=fault.lowest, fatal=False)
        victim.signal(signal.SIGSTOP)
        await self._down([victim], str(fault))
        await asyncio.sleep(fault.seconds)
        victim.signal(signal.SIGCONT)
        await self._all_step(fault)

    async def _freeze(self, fault: Fault) -> None:
        (victim,) = await self._victims(1, lowest=fault.lowest)
        generation = self._arena.generation()
        victim.signal(signal.SIGSTOP)
        await self._lose([victim], generation, fault)

    async def _terminate(self, fault: Fault) -> None:
        (victim,) = await self._victims(1, lowest=fault.lowest)
        victim.signal(signal.SIGTERM)
        await self._left(victim, fault)

    async def _left(self, victim: Running, fault: Fault) -> None:
        arena = self._arena
        await arena.until(lambda: not victim.alive, _LEAVE_LIMIT, f"{victim.name} leaves after: {fault}")
        if fault.point is not Point.LEAVING:
            assert victim.code == 128 + signal.SIGTERM, f"{victim.name} left with {victim.code}; see {victim.log}"
        await arena.spawn(victim.name)

    async def _all_step(self, fault: Fault, limit: float = KILL_LIMIT) -> None:
        """Wait until everybody has committed something new."""
        arena, now = self._arena, time.time()
        await arena.until(lambda: all(w.since(now) for w in arena.workers.values()), limit, f"all step after: {fault}")

    async def _while_stepping(self, fault: Fault) -> None:
        fatal = fault.deed is not Deed.PAUSE
        (victim,) = await self._victims(1, lowest=fault.lowest, fatal=fatal)
        generation = self._arena.generation()
        self._arena.arm(victim, f"{fault.point}:{fault.deed}")
        await self._suffer(victim, generation, fault)

    async def _suffer(self, victim: Running, generation: int, fault: Fault) -> None:
        """Deal with what a fault point does to a member."""
        if fault.deed is Deed.TERMINATE:
            await self._left(victim, fault)
        elif fault.deed is Deed.PAUSE:
            await asyncio.sleep(1.0)
            await self._all_step(fault)
        else:
            await self._lose([victim], generation, fault)

    async def _while_joining(self, fault: Fault) -> None:
        """Kill somebody, and hurt its successor on the way in."""
        arena = self._arena
        (victim,) = await self._victims(1, lowest=fault.lowest)
        generation = arena.generation()
        victim.signal(signal.SIGKILL)
        since = await self._down([victim], str(fault))
        await self._recovered([victim], generation, since, fault)
        joiner = await arena.spawn(victim.name, f"{fault.point}:{fault.deed}")
        if fault.deed is Deed.PAUSE:
            return
        await self._down([joiner], str(fault))
        now, others = time.time(), self._others([joiner])
        limit = FREEZE_LIMIT if joiner.stopped is not None else KILL_LIMIT
        await arena.until(lambda: all(w.since(now) for w in others), limit, f"the others step after: {fault}")
        await self._back([joiner])

    async def _while_changing(self, fault: Fault) -> None:
        """Hurt a member while it regroups because of another one, which is killed and comes back."""
        arena = self._arena
        victim, other = (await self._victims(2, lowest=fault.lowest))[:2]
        if fault.deed is Deed.PAUSE and not fault.lowest:
            victim = arena.workers[self._witness]
        faults = f"{fault.point}:{fault.deed}"
        generation = arena.generation()
        if fault.at_once:
            arena.arm(victim, faults)
        other.signal(signal.SIGKILL)
        since = await self._down([other], str(fault))
        if not fault.at_once:
            await self._recovered([other], generation, since, fault)
            arena.arm(victim, faults)
            generation = arena.generation()
        await arena.spawn(other.name)
        if fault.deed is Deed.PAUSE:
            return
        if fault.deed is Deed.TERMINATE:
            await self._left(victim, fault)
            return
        await self._down([victim], str(fault))
        now = time.time()
        stepping = [w for w in self._others([victim]) if w.name != other.name]
        limit = FREEZE_LIMIT if victim.stopped is not None else KILL_LIMIT
        await arena.until(lambda: all(w.since(now) for w in stepping), limit, f"the survivors step after: {fault}")
        await self._back([victim])

    async def _while_leaving(self, fault: Fault) -> None:
        (victim,) = await self._victims(1, lowest=fault.lowest)
        self._arena.arm(victim, f"{fault.point}:{fault.deed}")
        victim.signal(signal.SIGTERM)
        if fault.deed is Deed.FREEZE:
            await self._down([victim], str(fault))
            await asyncio.sleep(fault.seconds)
            victim.signal(signal.SIGCONT)
        await self._left(victim, fault)

    async def _outage(self, fault: Fault) -> None:
        await self._arena.stop_coordinator()
        await asyncio.sleep(fault.seconds)
        await self._arena.start_coordinator()

    async def _coordinator(self, fault: Fault) -> None:
        now, generation = time.time(), self._arena.generation()
        await self._outage(fault)
        on = all(w.since(now + 0.1) for w in self._arena.computing())
        assert fault.seconds < 0.5 or on, "training went on without a coordinator"
        await self._arena.until_whole(str(fault))
        assert self._arena.generation() == generation, "a new coordinator goes on with the old generation"

    async def _coordinator_and_kill(self, fault: Fault) -> None:
        (victim,) = await self._victims(1, lowest=fault.lowest)
        generation = self._arena.generation()
        if not fault.at_once:
            victim.signal(signal.SIGKILL)
        await self._arena.stop_coordinator()
        victim.signal(signal.SIGKILL)
        await asyncio.sleep(fault.seconds)
        await self._arena.start_coordinator()
        now, others = time.time(), self._others([victim])
        limit = SILENT_AFTER + KILL_LIMIT
        await self._arena.until(
            lambda: all((last := w.last) is not None and last.generation > generation for w in others),
            limit,
            f"the survivors step after: {fault}",
        )
        waited = max(min(w.since(now)[0].time for w in others) - now, 0.0)
        self.recoveries.append(Recovery(str(fault), "coordinator", round(waited, 4), round(waited, 4)))
        await self._arena.spawn(victim.name)

    async def _coordinator_and_join(self, fault: Fault) -> None:
        (victim,) = await self._victims(1, lowest=fault.lowest)
        generation = self._arena.generation()
        victim.signal(signal.SIGKILL)
        await self._lose([victim], generation, fault)
        await asyncio.sleep(fault.seconds * 0.3)
        await self._outage(fault)

    async def _cut(self, fault: Fault) -> None:
        (victim,) = await self._victims(1, lowest=fault.lowest, fatal=False)
        self._arena.cut(victim.name)
        await self._all_step(fault, KILL_LIMIT + SILENT_AFTER)

    async def _replace(self, fault: Fault) -> None:
        """Start a worker that runs already, as a controller does that has lost sight of it."""
        (victim,) = await self._victims(1, lowest=fault.lowest)
        since, generation = time.time(), self._arena.generation()
        successor = await self._arena.spawn(victim.name)
        await self._down([victim], str(fault))
        await self._recovered([victim, successor], generation, since, fault)
