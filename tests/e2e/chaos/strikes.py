"""One function for each kind of fault: does it, and says how it is undone if it has to be."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass

from cluster import FailedError, faults
from e2e.install import SYSTEM
from e2e.kube import Kube

from .manifests import BLOCKER, LIMITS, SILENT_SECONDS, blocker, eviction, resized
from .plan import Fault, Kind
from .seen import TAKEN, Pod
from .watching import OPERATOR, Eyes, UnreachableError

_PATIENCE_SECONDS = 45.0
_AGAIN_SECONDS = 0.3
# Briefer than what counts as silence, and so much longer that nobody can miss it
_BRIEF_SECONDS, _LONG_SECONDS = 0.4 * SILENT_SECONDS, SILENT_SECONDS + 3.0
_BRIEF = 0.3
_OUTAGE_SECONDS = 4.0
_HELD_SECONDS = 4.0
_TOO_LITTLE = 50
"""By how many thousandths of a CPU the blocker does not fit: whoever has the least to lose goes, and nobody else."""


@dataclass(frozen=True, slots=True)
class Undo:
    """What ends a fault that does not end by itself."""

    do: Callable[[], object]
    after: float
    """Seconds to wait before."""


@dataclass(frozen=True, slots=True)
class Done:
    """What was done."""

    victims: tuple[Pod, ...] = ()
    undo: Undo | None = None
    brief: bool = False
    detail: str = ""


class Striker:
    """Does faults in one namespace of a cluster."""

    def __init__(self, kube: Kube, eyes: Eyes) -> None:
        self._kube, self._eyes = kube, eyes
        self._blockers = 0
        self._deeds: dict[Kind, Callable[[Fault, tuple[Pod, ...]], Done]] = {
            Kind.KILL: self._kill,
            Kind.EVICT: self._evict,
            Kind.PREEMPT: self._preempt,
            Kind.RESIZE: self._resize,
            Kind.MEMORY: self._exhaust,
            Kind.CUT: self._cut,
            Kind.OPERATOR: self._operator,
            Kind.API_SERVER: self._api_server,
            Kind.KUBELET: self._kubelet,
        }

    def strike(self, fault: Fault, targets: tuple[Pod, ...]) -> Done:
        """Do a fault to these pods, or to what else it is about."""
        return self._deeds[fault.kind](fault, targets)

    def _kill(self, fault: Fault, targets: tuple[Pod, ...]) -> Done:
        """Take pods away without a word: their processes are killed, and nobody hears of their end."""
        words = ("--grace-period=0", "--force", "--wait=false", "--ignore-not-found")
        self._patiently("delete", "pod", *(pod.name for pod in targets), *words)
        return Done(targets)

    def _evict(self, fault: Fault, targets: tuple[Pod, ...]) -> Done:
        for pod in targets:
            path = f"/api/v1/namespaces/{self._kube.namespace}/pods/{pod.name}/eviction"
            wish = json.dumps(eviction(pod.name, self._kube.namespace))
            self._patiently("create", "--raw", path, "--filename", "-", given=wish)
        return Done(targets)

    def _preempt(self, fault: Fault, targets: tuple[Pod, ...]) -> Done:
        """Have the scheduler make room for a pod of a higher priority; whom it takes is its choice."""
        self._blockers += 1
        asked = self._eyes.room() + _TOO_LITTLE
        self._kube.apply(blocker(self._blockers, asked))
        undo = Undo(self._unblock, _HELD_SECONDS * fault.seconds)
        victims = self._until("the scheduler takes a pod away", self._taken)
        return Done(victims, undo, detail=f"for {asked}m")

    def _taken(self) -> tuple[Pod, ...]:
        pods = self._eyes.look().pods
        return tuple(pod for pod in pods if pod.disrupted == TAKEN and not pod.ended)

    def _unblock(self) -> None:
        names = [f"{BLOCKER}-{number + 1}" for number in range(self._blockers)]
        self._patiently("delete", "pod", *names, "--wait=false", "--ignore-not-found")

    def _resize(self, fault: Fault, targets: tuple[Pod, ...]) -> Done:
        """Halve a limit, or give back what was taken."""
        (pod,) = targets
        whole = next(limit for name, limit in LIMITS.items() if f"-{name}-" in pod.worker)
        wanted = whole // 2 if pod.millicpus >= whole else whole
        self._patiently("patch", "pod", pod.name, "--subresource", "resize", "--patch", json.dumps(resized(wanted)))
        return Done(targets, detail=f"{wanted}m")

    def _exhaust(self, fault: Fault, targets: tuple[Pod, ...]) -> Done:
        for pod in targets:
            self._patiently("exec", pod.name, "--", "touch", "/tmp/grow")  # noqa: S108 - a path in the pod
        return Done(targets)

    def _cut(self, fault: Fault, targets: tuple[Pod, ...]) -> Done:
        """Cut a pod off: for less than what counts as silence, or for longer."""
        (pod,) = targets
        brief = fault.seconds < _BRIEF
        seconds = _BRIEF_SECONDS if brief else _LONG_SECONDS + _OUTAGE_SECONDS * fault.seconds
        faults.cut(pod.address)
        return Done(targets, Undo(lambda: faults.mend(pod.address), seconds), brief, f"{seconds:.1f} s")

    def _operator(self, fault: Fault, targets: tuple[Pod, ...]) -> Done:
        system = ("--namespace", SYSTEM, "delete", "pod", "--selector", OPERATOR)
        self._patiently(*system, "--grace-period=0", "--force", "--wait=false")
        return Done()

    def _api_server(self, fault: Fault, targets: tuple[Pod, ...]) -> Done:
        return self._restart(faults.API_SERVER, fault)

    def _kubelet(self, fault: Fault, targets: tuple[Pod, ...]) -> Done:
        return self._restart(faults.KUBELET, fault)

    def _restart(self, component: str, fault: Fault) -> Done:
        seconds = _OUTAGE_SECONDS * fault.seconds
        faults.restart(component, seconds)
        return Done(detail=f"away for {seconds:.1f} s")

    def _patiently(self, *words: str, given: str | None = None) -> str:
        """Run kubectl until the API server takes it: it may be on its way back from a fault."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                return self._kube.run(*words, given=given)
            except FailedError as error:
                if "not found" in str(error):
                    return ""  # it was done, and the answer was lost
                if time.monotonic() > until:
                    raise
            time.sleep(_AGAIN_SECONDS)

    def _until(self, what: str, true: Callable[[], tuple[Pod, ...]]) -> tuple[Pod, ...]:
        until = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < until:
            try:
                if found := true():
                    return found
            except UnreachableError:
                pass
            time.sleep(_AGAIN_SECONDS)
        raise AssertionError(f"{what}: not within {_PATIENCE_SECONDS:g} s")
