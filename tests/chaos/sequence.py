"""Which faults happen, in which order: a pure function of a seed. Who is hit is decided when it happens."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from omnilearn_runtime.faults import Deed, Point

STEPPING = (Point.COMPUTING, Point.CLAIMED, Point.FIRST_BUCKET, Point.REDUCING, Point.BEFORE_UPDATE, Point.AFTER_UPDATE)
JOINING = (
    Point.JOINED, Point.ASSIGNED, Point.FORMING, Point.BUILT, Point.ROLL_CALL, Point.HEALING, Point.HEALED,
    Point.ENTERED,
)  # fmt: skip
CHANGING = (*JOINING[1:], Point.SWITCHING)

# What happens only where a server applies gradients, to whoever it is the server of, or to anybody
OF_THE_SERVER = (Point.PUSHED, Point.APPLIED, Point.SNAPSHOT)
WITH_A_SERVER = (Point.LEASED, Point.PUSHING, Point.MEETING)

# An error in a thread of the runtime's own is no error of a script.
_RAISING = (
    *STEPPING, Point.EVALUATING, Point.CHECKPOINT, Point.JOINED, Point.ROLL_CALL, Point.HEALING, Point.HEALED,
    Point.SWITCHING,
)  # fmt: skip


class Scene(StrEnum):
    """What is played."""

    KILL = "kill"
    KILL_TWO = "kill two at once"
    FREEZE_BRIEFLY = "freeze briefly"
    FREEZE = "freeze"
    TERMINATE = "terminate"
    STEPPING = "point while stepping"
    JOINING = "point while joining"
    CHANGING = "point while another joins"
    LEAVING = "point while leaving"
    COORDINATOR = "coordinator restarts"
    COORDINATOR_AND_KILL = "coordinator restarts and a worker dies"
    COORDINATOR_AND_JOIN = "coordinator restarts during a join"
    CUT = "connection cut"
    REPLACE = "second attempt of a living worker"


_FAULTS_OF = {
    Scene.KILL_TWO: 2,
    Scene.CHANGING: 2,
    Scene.JOINING: 2,
    Scene.COORDINATOR_AND_KILL: 2,
    Scene.COORDINATOR_AND_JOIN: 2,
}
_WEIGHTS = {
    Scene.KILL: 4, Scene.KILL_TWO: 4, Scene.FREEZE_BRIEFLY: 2, Scene.FREEZE: 1, Scene.TERMINATE: 3, Scene.STEPPING: 6,
    Scene.JOINING: 5, Scene.CHANGING: 6, Scene.LEAVING: 1, Scene.COORDINATOR: 2, Scene.COORDINATOR_AND_KILL: 1,
    Scene.COORDINATOR_AND_JOIN: 2, Scene.CUT: 2, Scene.REPLACE: 2,
}  # fmt: skip
_DEEDS = {Deed.KILL: 6, Deed.FREEZE: 1, Deed.TERMINATE: 2, Deed.RAISE: 2, Deed.PAUSE: 1}


@dataclass(frozen=True, slots=True)
class Fault:
    """One scene."""

    scene: Scene
    point: Point | None = None
    deed: Deed = Deed.KILL
    lowest: bool = False
    """Hit the lowest rank."""

    at_once: bool = False
    """Start what is to come back at once, not after the others have recovered."""

    seconds: float = 0.0
    """How long a brief freeze or an outage lasts."""

    @property
    def count(self) -> int:
        """How many faults it is."""
        return _FAULTS_OF.get(self.scene, 1)

    def __str__(self) -> str:
        where = f" {self.point}:{self.deed}" if self.point else ""
        more = f"{' of the lowest rank' if self.lowest else ''}{', back at once' if self.at_once else ''}"
        return f"{self.scene}{where}{more}"


def kills_at_every_point(chance: random.Random) -> list[Fault]:
    """Return a kill at every arrow of the protocol; that of finishing comes at the end of every run."""
    return [
        *(_fault(chance, Scene.STEPPING, point) for point in (*STEPPING, Point.EVALUATING, Point.CHECKPOINT)),
        *(_fault(chance, Scene.JOINING, point) for point in JOINING),
        *(_fault(chance, Scene.CHANGING, point) for point in CHANGING),
        _fault(chance, Scene.LEAVING, Point.LEAVING),
    ]


def kills_with_a_server(chance: random.Random) -> list[Fault]:
    """Return a kill at every arrow that there is only with a server, and of the server at any moment."""
    anybody = [_fault(chance, Scene.STEPPING, point) for point in WITH_A_SERVER]
    server = [Fault(Scene.STEPPING, point, lowest=True) for point in OF_THE_SERVER]
    return [*anybody, *server, Fault(Scene.KILL, lowest=True), Fault(Scene.TERMINATE, lowest=True)]


def sequence(seed: int, count: int) -> list[Fault]:
    """Return scenes with at least ``count`` faults: every scene, a kill at every point, and whatever chance adds."""
    chance = random.Random(seed)
    faults = [*kills_at_every_point(chance), *(_fault(chance, scene) for scene in Scene if scene not in _POINTS)]
    while sum(fault.count for fault in faults) < count:
        scene = chance.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        points = _POINTS.get(scene)
        point = None if points is None else chance.choice(points)
        deed = Deed.KILL if point is None else chance.choice(_deeds(point))
        faults.append(_fault(chance, scene, point, deed))
    chance.shuffle(faults)
    return faults


_POINTS = {
    Scene.STEPPING: (*STEPPING, Point.EVALUATING, Point.CHECKPOINT),
    Scene.JOINING: JOINING,
    Scene.CHANGING: CHANGING,
    Scene.LEAVING: (Point.LEAVING,),
}


def _deeds(point: Point) -> Sequence[Deed]:
    """Return what may happen at a point, the likelier the more often."""
    leaving = (Deed.TERMINATE, Deed.RAISE) if point is Point.LEAVING else ()
    possible = [deed for deed in Deed if deed not in leaving and (deed is not Deed.RAISE or point in _RAISING)]
    return [deed for deed in possible for _ in range(_DEEDS[deed])]


def _fault(chance: random.Random, scene: Scene, point: Point | None = None, deed: Deed = Deed.KILL) -> Fault:
    lowest = point is Point.CHECKPOINT or chance.random() < 0.4
    return Fault(scene, point, deed, lowest, chance.random() < 0.5, chance.uniform(0.1, 1.0))
