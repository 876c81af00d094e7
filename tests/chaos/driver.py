"""A whole run: a job, a sequence of faults, the end of the job, and the judgement. Used by the tests."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnilearn_core.api.strategy import Strategy
from omnilearn_runtime.faults import Deed

from .arena import Arena
from .performer import Performer
from .sequence import Fault
from .verdict import Footprint, Recovery

SIZE = 5


@dataclass(frozen=True, slots=True)
class Run:
    """What a run has left, for the judgement."""

    folder: Path
    seconds: float
    epochs: int
    faults: int
    recoveries: tuple[Recovery, ...]
    footprints: tuple[Footprint, ...]
    """Of the witness, one after each scene; if it had to start anew, of its longest life."""

    finished: tuple[str, ...]
    """The workers that came to the end of the script."""

    def to_json(self) -> dict[str, Any]:
        """Return the times, for a benchmark."""
        return {
            "faults": self.faults,
            "seconds": round(self.seconds, 1),
            "epochs": self.epochs,
            "recoveries": [each.to_json() for each in self.recoveries],
        }

    def write(self, file: Path) -> None:
        """Write the times down."""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(self.to_json(), indent=1), encoding="utf-8")


def run(folder: Path, faults: list[Fault], seed: int, strategy: Strategy | None = None) -> Run:
    """Play all faults, then let the job finish; raises StuckError if anything takes too long."""
    return asyncio.run(_run(folder, faults, seed, strategy))


async def _run(folder: Path, faults: list[Fault], seed: int, strategy: Strategy | None) -> Run:
    begun = time.monotonic()
    chance = random.Random(seed)
    arena = Arena(folder, SIZE, strategy=strategy)
    footprints: dict[int, list[Footprint]] = defaultdict(list)
    try:
        await arena.start()
        name = arena.names[-1]
        performer = Performer(arena, chance, name)
        for fault in faults:
            await performer.play(fault)
            witness = arena.workers[name]
            footprints[witness.pid].append(Footprint(witness.threads(), witness.sockets(), witness.memory()))
        wounded = arena.names[0]
        epochs = await arena.finish([wounded])
        finished = tuple(name for name, worker in arena.workers.items() if worker.code == 0)
    finally:
        await arena.stop()
    longest = max(footprints.values(), key=len)
    count = sum(fault.count for fault in faults) + 1
    return Run(folder, time.monotonic() - begun, epochs, count, tuple(performer.recoveries), tuple(longest), finished)


def deadly(faults: list[Fault]) -> set[str]:
    """Return the points at which somebody was killed."""
    return {str(fault.point) for fault in faults if fault.point and fault.deed is Deed.KILL}
