"""What must follow a fault, as conditions on later looks, and how long each of them took to come. Pure.

Faults may overlap, so a condition says what has become of the fault's own victims, not how the whole job is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .plan import LOSSES, Fault, Kind
from .seen import Pod, Seen

PREEMPTED, LOST, LEFT, FAILED = "WorkerPreempted", "WorkerLost", "WorkerLeft", "WorkerFailed"
OUT_OF_MEMORY, REBALANCED, ADOPTED, REGROUPED = (
    "WorkerOutOfMemory", "BatchRebalanced", "CoordinatorAdopted", "Regrouped",
)  # fmt: skip

TOLD = {
    Kind.KILL: (PREEMPTED, LOST),
    Kind.EVICT: (PREEMPTED,),
    Kind.PREEMPT: (PREEMPTED,),
    Kind.MEMORY: (OUT_OF_MEMORY,),
    Kind.CUT: (LOST,),
    Kind.RESIZE: (REBALANCED, REGROUPED),
    Kind.OPERATOR: (ADOPTED,),
}
"""By which events of the job a fault of a kind is told; a node's kubelet tells of itself."""

LIMITS = dict.fromkeys(Kind, 240.0) | {Kind.API_SERVER: 60.0, Kind.KUBELET: 60.0}
"""Within how many seconds all of it must have come, on a machine that does other things as well.

An operator that is killed just after the API server was: the cluster's own controllers look at pods again up to a
minute later, and the Lease of one replica lasts a minute, if it could not be given back.
"""

_FOLLOWS = 1.1
"""A share that has changed by this factor has followed a limit that was halved or doubled."""


@dataclass(slots=True)
class Strike:
    """A fault that has happened, and what has been seen since."""

    number: int
    fault: Fault
    at: float
    wall: float
    before: Seen
    victims: tuple[Pod, ...] = ()
    brief: bool = False
    """A cut that is too short to be noticed."""

    detail: str = ""
    came: dict[str, float] = field(default_factory=dict)
    """How many seconds after the fault each condition was seen to hold."""

    newest: float = 0.0
    """When the last of its victims was hit, if that was later."""

    overtaken: bool = False
    """The victim was hit by something worse before all was seen."""

    @property
    def awaited(self) -> list[str]:
        """What has not been seen yet."""
        return [] if self.overtaken else [name for name in conditions(self) if name not in self.came]

    @property
    def late_at(self) -> float:
        """When it is too late for what has not been seen."""
        return max(self.at, self.newest) + LIMITS[self.fault.kind]

    @property
    def loses(self) -> bool:
        """True if the victims end."""
        return self.fault.kind in LOSSES and not self.brief

    def takes(self, pod: Pod, at: float) -> None:
        """Take in a victim that was hit later: of it, nothing has been seen yet."""
        self.victims = (*self.victims, pod)
        self.newest = at
        self.came.clear()

    def notice(self, now: Seen, hit: Mapping[str, int]) -> None:
        """Take in a look; ``hit`` has the number of the newest fault that ends each pod, by UID."""
        for name in self.awaited:
            if conditions(self)[name](self, now):
                self.came[name] = now.at - self.at
        if self.fault.kind is Kind.RESIZE or self.brief:
            self.overtaken = any(hit.get(pod.uid, self.number) > self.number for pod in self.victims)


Condition = Callable[[Strike, Seen], bool]


def conditions(strike: Strike) -> dict[str, Condition]:
    """Return what must become true after a fault, in the order in which it usually does."""
    kind = strike.fault.kind
    if strike.loses:
        return {"told": _told_of_each, "regrouped": _regrouped, "back": _back}
    if kind is Kind.RESIZE:
        return {"applied": _applied, "moved": _moved, "told": _told}
    if kind is Kind.OPERATOR:
        return {"ready": _operator_ready, "told": _told, "steps": _steps}
    if kind is Kind.KUBELET:
        return {"told": _kubelet_told, "steps": _steps}
    return {"steps": _steps}


def _told_of_each(strike: Strike, now: Seen) -> bool:
    reasons = TOLD[strike.fault.kind]
    ends = Counter(pod.worker for pod in strike.victims)
    return all(
        now.tellings(*reasons, about=worker) >= strike.before.tellings(*reasons, about=worker) + times
        for worker, times in ends.items()
    )


def _told(strike: Strike, now: Seen) -> bool:
    reasons = TOLD[strike.fault.kind]
    return now.tellings(*reasons) > strike.before.tellings(*reasons)


def _regrouped(strike: Strike, now: Seen) -> bool:
    return now.generation > strike.before.generation


def _back(strike: Strike, now: Seen) -> bool:
    """Tell whether every victim's worker trains again, by another pod; whoever was cut off may be back itself."""
    training = now.training()
    return all(
        any(pod.worker == victim.worker and _is_later(pod, victim) for pod in training) for victim in strike.victims
    )


def _is_later(pod: Pod, victim: Pod) -> bool:
    return pod.uid != victim.uid or (pod.generation or 0) > (victim.generation or 0)


def _applied(strike: Strike, now: Seen) -> bool:
    return all((pod := now.pod(victim.uid)) and f"{pod.millicpus}m" == strike.detail for victim in strike.victims)


def _moved(strike: Strike, now: Seen) -> bool:
    """Tell whether the share has followed the limit; after a regroup, shares are of other members and say nothing."""
    (victim,) = strike.victims
    if now.generation > strike.before.generation:
        return True
    before, after = strike.before.part(victim.worker), now.part(victim.worker)
    grows = int(strike.detail.removesuffix("m")) > victim.millicpus
    return after > _FOLLOWS * before if grows else before > _FOLLOWS * after > 0


def _operator_ready(strike: Strike, now: Seen) -> bool:
    return now.operator not in ("", strike.before.operator)


def _kubelet_told(strike: Strike, now: Seen) -> bool:
    return now.kubelets > strike.before.kubelets


def _steps(strike: Strike, now: Seen) -> bool:
    return now.step > strike.before.step
