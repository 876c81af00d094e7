"""A whole run: a job on pods, a plan of faults, what follows each of them, and the end of the job.

One thread: between faults it looks at the job, takes note of what has come and of what must not have happened, ends
what has to be ended, and fails as soon as something that must come is too late.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from e2e.kube import Kube

from .consequences import Strike
from .log import Log
from .plan import WORKERS, Fault, Kind, chosen
from .seen import TAKEN, Pod, Seen
from .strikes import Done, Striker, Undo
from .watching import Eyes, UnreachableError

_LOOK_SECONDS = 0.25
_START_SECONDS, _STRIKE_SECONDS, _END_SECONDS = 240.0, 240.0, 180.0
_OUTAGE_SECONDS = 60.0
_KUBELET_SECONDS = 30.0
_UNBOUNDED = 10**9
# How much further than the epoch that is being trained the last one is: whoever is slow to look must see it in time.
_EPOCHS_MORE = 3
_NAME_THE_LAST = (
    "cd /checkpoints && echo $(($(cat epoch) + {more})) >last.new && mv last.new last-epoch && cat last-epoch"
)


class ChaosError(AssertionError):
    """Something did not come in time, or should not have happened."""


@dataclass(slots=True)
class Run:
    """What has happened."""

    strikes: list[Strike] = field(default_factory=list)
    epochs: int = 0
    began: float = 0.0
    ended: float = 0.0
    last: Seen = field(default_factory=lambda: Seen(0.0))
    hit: dict[str, int] = field(default_factory=dict)
    """The newest fault that may end each pod, by UID."""

    strays: dict[str, str] = field(default_factory=dict)
    """Pods that ended although nothing was done to them, by UID."""

    restarted: set[str] = field(default_factory=set)
    """Pods whose container was started again after it had run."""


class Driver:
    """Plays faults against one job."""

    def __init__(self, kube: Kube, job: str, log: Log) -> None:
        self._kube, self._job, self._log = kube, job, log
        self._eyes = Eyes(kube, job)
        self._striker = Striker(kube, self._eyes)
        self._undos: list[tuple[float, Undo]] = []
        self._members: dict[str, int] = {}
        self._known: dict[str, Pod] = {}
        self._started: dict[str, int] = {}
        self._heard = time.monotonic()
        self.run = Run()

    def play(self, faults: list[Fault]) -> Run:
        """Play all faults, and let the job come to its end."""
        run = self.run
        self._until("all workers train", lambda now: len(self._holders(now)) == WORKERS, _START_SECONDS)
        run.began = time.time()
        try:
            for fault in faults:
                self._play(fault)
            self._until("the job has recovered from everything", self._is_calm, _STRIKE_SECONDS)
        finally:
            self._undo_all()
        run.epochs = self._finish()
        run.ended = time.time()
        return run

    # One fault

    def _play(self, fault: Fault) -> None:
        if not fault.hurry or fault.kind is Kind.PREEMPT:  # the scheduler's choice is only known where all is calm
            self._until(f"calm before: {fault}", self._is_calm, _STRIKE_SECONDS)
        earliest = time.monotonic() + fault.pause
        targets: tuple[Pod, ...] | None = None

        def possible(now: Seen) -> bool:
            nonlocal targets
            targets = chosen(fault, self._candidates(now))
            return now.at >= earliest and targets is not None

        before = self._until(f"enough hold the model for: {fault}", possible, _STRIKE_SECONDS)
        at, wall = time.monotonic(), time.time()
        done = self._striker.strike(fault, targets or ())
        strike = Strike(len(self.run.strikes), fault, at, wall, before, done.victims, done.brief, done.detail)
        self._note(strike, done)

    def _note(self, strike: Strike, done: Done) -> None:
        self.run.strikes.append(strike)
        if strike.loses or strike.brief:
            self.run.hit |= {pod.uid: strike.number for pod in strike.victims}
        if done.undo is not None:
            self._undos.append((time.monotonic() + done.undo.after, done.undo))
        self._log.struck(strike)

    def _candidates(self, now: Seen) -> list[Pod]:
        """Return who may be hit: those who hold the model, first whoever has been out of memory least often."""
        return sorted(self._holders(now), key=lambda pod: -(pod.bound or _UNBOUNDED))

    def _holders(self, now: Seen) -> list[Pod]:
        """Return the pods that hold the model: a step was told since each was first seen as a member."""
        strikes, hit = self.run.strikes, self.run.hit
        untouched = [pod for pod in now.training() if pod.uid not in hit or not strikes[hit[pod.uid]].awaited]
        return [pod for pod in untouched if now.step > self._members.get(pod.uid, now.step)]

    def _is_calm(self, now: Seen) -> bool:
        waiting = any(strike.awaited for strike in self.run.strikes)
        return not waiting and not self._undos and len(self._holders(now)) == WORKERS and bool(now.operator)

    # Looking

    def _until(self, what: str, true: Callable[[Seen], bool], seconds: float) -> Seen:
        """Look until something is true; ChaosError if it is not in time, or if something is wrong meanwhile."""
        until = time.monotonic() + seconds
        while True:
            self._undo_due()
            with suppress(UnreachableError):
                now = self._look()
                if true(now):
                    return now
            self._check(until, f"{what}: not within {seconds:g} s")
            time.sleep(_LOOK_SECONDS)

    def _look(self) -> Seen:
        now = self._eyes.look()
        run, self._heard = self.run, now.at
        run.last = now
        for pod in now.training():
            self._members.setdefault(pod.uid, now.step)
        self._watch_ends(now)
        for strike in run.strikes:
            awaited = strike.awaited
            if awaited:
                strike.notice(now, run.hit)
                self._log.noticed(strike, awaited)
        return now

    def _watch_ends(self, now: Seen) -> None:
        """Take note of every pod that ends though nobody has touched it, and of every container that starts again."""
        there = {pod.uid: pod for pod in now.pods}
        if not self.run.epochs:
            ended = [self._known[uid] for uid in self._known.keys() - there.keys()]
            ended += [pod for pod in now.pods if pod.over]
            for pod in ended:
                self._note_taken(pod)
                if pod.uid not in self._started and self._has_stopped_kubelet(now.at):
                    continue  # what a kubelet had begun when it was killed, it may give up
                if pod.uid not in self.run.hit and pod.uid not in self.run.strays:
                    self.run.strays[pod.uid] = f"{pod.name}: {pod.disrupted or pod.message or pod.code}"
        self._known = there
        # A kubelet that was killed between making a container and starting it makes another one: nobody was restarted.
        for pod in now.pods:
            if pod.running:
                self._started.setdefault(pod.uid, pod.restarts)
        self.run.restarted |= {pod.name for pod in now.pods if pod.restarts > self._started.get(pod.uid, pod.restarts)}

    def _has_stopped_kubelet(self, now: float) -> bool:
        lately = [each for each in self.run.strikes if now - each.at < _KUBELET_SECONDS]
        return any(each.fault.kind is Kind.KUBELET for each in lately)

    def _note_taken(self, pod: Pod) -> None:
        """Count whom else a pod of a higher priority takes, while it is there, to the fault that has brought it."""
        newest = next((each for each in reversed(self.run.strikes) if each.fault.kind is Kind.PREEMPT), None)
        if newest is not None and pod.disrupted == TAKEN and pod.uid not in self.run.hit:
            self.run.hit[pod.uid] = newest.number
            if pod.uid in self._members:  # of one that has never trained, nobody may have known
                newest.takes(pod, time.monotonic())

    def _check(self, until: float, why: str) -> None:
        now = time.monotonic()
        late = [strike for strike in self.run.strikes if strike.awaited and now > strike.late_at]
        if late:
            missing = "; ".join(f"#{each.number} {each.fault}: {', '.join(each.awaited)}" for each in late)
            raise ChaosError(f"too late: {missing}")
        if now - self._heard > _OUTAGE_SECONDS:
            raise ChaosError(f"the API server has not answered for {_OUTAGE_SECONDS:g} s")
        if now > until:
            raise ChaosError(why)

    # Ending

    def _undo_due(self) -> None:
        now = time.monotonic()
        for due in [each for each in self._undos if each[0] <= now]:
            due[1].do()
            self._undos.remove(due)

    def _undo_all(self) -> None:
        for _, undo in self._undos:
            undo.do()
        self._undos.clear()

    def _finish(self) -> int:
        """Name the last epoch, and wait until the job is complete; return how many epochs it had."""
        pod = self._holders(self.run.last)[0].name
        words = ("sh", "-c", _NAME_THE_LAST.format(more=_EPOCHS_MORE))
        self.run.epochs = epochs = int(self._kube.run("exec", pod, "--", *words))
        self._until("the job is complete", lambda now: now.phase == "Complete", _END_SECONDS)
        return epochs
