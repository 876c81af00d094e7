"""Who trains, as simple as can be: a pod that runs is a member a moment later, and the script ends when it is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from omnilearn_coordinator.membership.actions import Happening, Kind
from omnilearn_coordinator.membership.state import Outcome
from omnilearn_coordinator.view import JobView, MemberState, MemberView, Phase
from omnilearn_core.api import names
from omnilearn_core.api.job import OmniLearnJob
from omnilearn_operator.api import Manifest
from omnilearn_operator.registry import Key
from operations import completed, view_of

from .nodes import Nodes
from .store import is_over, runs, uid_of, worker_of

# How long a worker takes to come to a coordinator, when either of them is new
_JOIN_SECONDS = 2.0
_SAVE_SECONDS = 1.0
_DONE = json.dumps({"type": "done"})


@dataclass
class Script:
    """What the script of a job does: the truth, which no operator's death changes."""

    uid: str
    at_its_end: bool = False
    """All workers have come to the end and wait to be released."""

    released: bool = False
    fails_late: bool = False
    """One worker fails when it saves the model."""

    generation: int = 0
    members: frozenset[str] = frozenset()


class Scripts:
    """The scripts of all jobs."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.known: dict[str, Script] = {}
        self.running_since: dict[str, float] = {}

    def of(self, uid: str) -> Script:
        return self.known.setdefault(uid, Script(uid))

    def members(self, uid: str, since: float) -> list[Manifest]:
        """Return the pods that train under a coordinator that has been there since then."""
        now, found = self.nodes.store.clock.seconds, []
        for pod in self.nodes.store.pods(uid):
            if runs(pod) and uid_of(pod) not in self.nodes.lost and not is_over(pod):
                begun = self.running_since.setdefault(uid_of(pod), now)
                if now - max(begun, since) >= _JOIN_SECONDS:
                    found.append(pod)
        return found

    def release(self, uid: str) -> None:
        """Let the workers of a job go: they save their model and end."""
        script = self.of(uid)
        if script.released:
            return
        script.released = True
        for number, pod in enumerate(self.members(uid, 0.0)):
            code = 1 if script.fails_late and number == 0 else 0
            self.nodes.ends_later(_SAVE_SECONDS, pod, code, _DONE if code == 0 else "")


@dataclass
class _Running:
    job: OmniLearnJob
    since: float
    outcome: Outcome | None = None
    attempts: dict[str, int] = field(default_factory=dict)
    there: frozenset[str] = frozenset()
    """The workers that were members when it was last looked at."""


class Coordinating:
    """The coordinators of one operator, for its loop: what they know dies with it."""

    def __init__(self, scripts: Scripts, looks: Callable[[Key], None], tell: Callable[[Key, Happening], None]) -> None:
        self._scripts, self._looks, self._tell = scripts, looks, tell
        self._running: dict[Key, _Running] = {}
        self.shown: dict[Key, dict[str, int]] = {}
        """The members that were shown last, each with its attempt."""

        self.trained: dict[str, dict[str, int]] = {}
        """The newest attempt of each worker that was ever shown as a member, by the job's UID."""

    async def ensure(self, key: Key, job: OmniLearnJob) -> None:
        known = self._running.get(key)
        if known is None or (known.job.metadata.uid, known.job.spec) != (job.metadata.uid, job.spec):
            self._running[key] = _Running(job, self._now)

    def check_identities(self, key: Key) -> None:
        """Nobody hangs up here."""

    async def stop(self, key: Key) -> None:
        self._running.pop(key, None)

    @property
    def _now(self) -> float:
        return self._scripts.nodes.store.clock.seconds

    def view(self, key: Key) -> JobView | None:
        self._looks(key)
        running = self._running.get(key)
        if running is None:
            self.shown.pop(key, None)
            return None
        uid = running.job.metadata.uid or ""
        script, members = self._scripts.of(uid), self._newest(running, uid)
        self._miss(key, running, frozenset(map(worker_of, members)))
        enough = len(members) >= running.job.spec.fewest
        if enough and script.at_its_end and running.outcome is None:
            running.outcome = completed(*(worker_of(pod) for pod in members))
            self._scripts.release(uid)
        there = frozenset(uid_of(pod) for pod in members)
        if enough and there != script.members:
            script.generation, script.members = script.generation + 1, there
        phase = Phase.COMPLETE if running.outcome else Phase.RUNNING if enough else Phase.WAITING
        self.shown[key] = {worker_of(pod): _attempt(pod) for pod in members} if enough else {}
        self.trained.setdefault(uid, {}).update(self.shown[key])
        share = running.job.spec.batch.global_ // max(1, len(members))
        return view_of(
            [_member(pod, share) for pod in members] if enough else [],
            phase=phase,
            generation=script.generation if enough else None,
            outcome=running.outcome,
        )

    def _miss(self, key: Key, running: _Running, there: frozenset[str]) -> None:
        """Tell of those who were members and are not any more."""
        missing, running.there = running.there - there, there
        for worker in sorted(missing):
            self._tell(key, Happening(Kind.LOST, f"{worker} is lost", worker))

    def _newest(self, running: _Running, uid: str) -> list[Manifest]:
        """Return the members; of two attempts of a worker only the newer may speak."""
        members = self._scripts.members(uid, running.since)
        for pod in members:
            worker, attempt = worker_of(pod), _attempt(pod)
            running.attempts[worker] = max(attempt, running.attempts.get(worker, 0))
        newest = [pod for pod in members if _attempt(pod) == running.attempts[worker_of(pod)]]
        return newest[: max(1, running.job.spec.most)]


def _attempt(pod: Manifest) -> int:
    return int(pod["metadata"]["labels"][names.ATTEMPT_LABEL])


def _member(pod: Manifest, share: int) -> MemberView:
    return MemberView(worker_of(pod), "cpu", _attempt(pod), MemberState.TRAINING, share=share, step_seconds=0.5)
