"""What must be true in every history, seen from where nothing is hidden: the API server and the nodes."""

from __future__ import annotations

import json
import logging
from collections import Counter

from omnilearn_core.api import names
from omnilearn_core.api.job import OmniLearnJob
from omnilearn_core.api.status import JobStatus, WorkerCounts
from omnilearn_operator.api import Manifest
from omnilearn_operator.manifests.pods import template_hash
from omnilearn_operator.registry import Key

from .front import Line
from .nodes import Cause, Nodes
from .operators import Operator
from .store import NAMESPACE, Change, owner_of, uid_of, worker_of
from .training import Scripts

_LARGEST_STATUS = 64 * 1024
_ENDS = ("Complete", "Failed")
_ROLLED = "another template"


class Witness(logging.Handler):
    """Hears of every write before it is done, and of every error in the log; keeps what should not be."""

    def __init__(self, nodes: Nodes, scripts: Scripts, line: Line) -> None:
        super().__init__(logging.ERROR)
        self._line = line
        self._nodes, self._store, self._scripts = nodes, nodes.store, scripts
        self.violations: list[str] = []
        self.writes: Counter[str] = Counter()
        self.deaths = 0
        """How many operators have died."""

        self._versions: dict[str, dict[int, OmniLearnJob]] = {}
        self._names: set[tuple[str, str]] = set()
        self._statuses: dict[str, JobStatus] = {}
        self._rolled: dict[Operator, dict[tuple[str, str], tuple[int, int]]] = {}
        """Of each operator, whom it has given another template while they ran: the attempt, and the spec's version."""

        self._store.listeners.append(self._heard)

    def emit(self, record: logging.LogRecord) -> None:
        self.violations.append(f"an error in the log: {logging.Formatter().format(record)}")

    def _heard(self, kind: str, change: Change) -> None:
        if kind == names.KIND and change.type != "DELETED":
            metadata = change.object["metadata"]
            known = self._versions.setdefault(metadata["uid"], {})
            if metadata["generation"] not in known:
                known[metadata["generation"]] = OmniLearnJob.from_manifest(change.object)

    def hears(self, operator: Operator, verb: str, what: Manifest) -> None:
        """Take in a write that is about to be done, of a status one that was done."""
        self.writes[f"{verb} {what['kind']}"] += 1
        if what["kind"] == "Pod" and verb == "create":
            self._created(operator, what)
        elif what["kind"] == "Pod" and verb == "delete":
            self._deleted(operator, what)
        elif what["kind"] == names.KIND and verb == "delete":
            if not self._has_ended(uid_of(what)):
                self.violations.append("a job is deleted that has not ended")
        elif what["kind"] == names.KIND:
            self._said(uid_of(what), OmniLearnJob.from_manifest(what))

    def _believed(self, operator: Operator, uid: str) -> list[OmniLearnJob]:
        """Return the versions of a job that an operator may act on: the newest that it was told of, and newer ones."""
        oldest = operator.known.get(uid, 0)
        return [job for version, job in self._versions[uid].items() if version >= oldest]

    def _created(self, operator: Operator, pod: Manifest) -> None:
        uid, name, worker = owner_of(pod), pod["metadata"]["name"], worker_of(pod)
        jobs = self._believed(operator, uid)
        live = [each for each in self._store.pods(uid) if self._nodes.is_well(each)]
        # Where nothing can be written down, a worker is replaced all the same.
        if (uid, name) in self._names and not self._line.spoiled:
            self.violations.append(f"{name} was created before: an attempt is used twice")
        self._names.add((uid, name))
        if any(worker_of(each) == worker for each in live):
            self.violations.append(f"{name} is created while another pod of {worker} is well")
        mates = sum(_group(each) == _group(pod) for each in live)
        if all(job.spec.suspend or mates >= _replicas(job, _group(pod)) for job in jobs):
            self.violations.append(f"{name} is created, but its group wants no more")
        if len(live) + 1 > max(job.spec.most for job in jobs):
            self.violations.append(f"{name} is created beyond the most workers that are allowed")
        if self._has_ended(uid):
            self.violations.append(f"{name} is created after the job has ended")

    def _deleted(self, operator: Operator, pod: Manifest) -> None:
        uid, name, worker = owner_of(pod), pod["metadata"]["name"], worker_of(pod)
        reasons = self._reasons(operator, pod, uid, worker) if self._nodes.is_well(pod) else ["over"]
        if not reasons:
            self.violations.append(f"{name} is deleted for no reason that is true")
        if reasons == [_ROLLED]:
            self._check_rollout(operator, pod, uid, worker)
        self._nodes.causes.setdefault(uid_of(pod), Cause.LET_GO)

    def _reasons(self, operator: Operator, pod: Manifest, uid: str, worker: str) -> list[str]:
        """Return why a pod may be deleted."""
        jobs, found, group = self._believed(operator, uid), [], _group(pod)
        there = [each for each in operator.saw.get(uid, ()) if not each.over]
        mates = sum(each.worker.rpartition("-")[0] == worker.rpartition("-")[0] for each in there)
        if any(job.spec.suspend or mates > _room(job, group) or len(there) > job.spec.most for job in jobs):
            found.append("not wanted")
        hash_ = pod["metadata"]["annotations"][names.TEMPLATE_HASH_ANNOTATION]
        if any(template_hash(each) != hash_ for job in jobs for each in job.spec.workers if each.name == group):
            found.append(_ROLLED)
        if any(_attempt(each) > _attempt(pod) for each in self._store.pods(uid) if worker_of(each) == worker):
            found.append("replaced")
        if self._has_ended(uid) or self._is_ending(uid, jobs):
            found.append("ended")
        return found

    def _check_rollout(self, operator: Operator, pod: Manifest, uid: str, worker: str) -> None:
        """Check that one goes at a time of those that run, once there is a model to lose, and that enough are left."""
        jobs, name = self._believed(operator, uid), pod["metadata"]["name"]
        shown = operator.coordinating.shown.get(Key(NAMESPACE, jobs[0].metadata.name), {})
        trained = operator.coordinating.trained.get(uid, {})
        saw = {(each.worker, each.attempt): each for each in operator.saw.get(uid, ()) if not each.over}
        ran = (worker, _attempt(pod)) in shown.items() or any(
            each.uid == uid_of(pod) and each.running for each in saw.values()
        )
        if not ran or not (trained or self._has_begun(uid)):
            return
        rolled = self._rolled.setdefault(operator, {})
        left = [
            who
            for who in shown.items()
            if who in saw and who[0] != worker and rolled.get((uid, who[0]), (-1, 0))[0] < who[1]
        ]
        if len(left) < min(job.spec.fewest for job in jobs):
            self.violations.append(f"{name} gets another template, and only {left} train")
        for (job, other), (attempt, version) in rolled.items():
            if job == uid and other != worker and trained.get(other, -1) <= attempt and not self._moved(uid, version):
                self.violations.append(f"{name} gets another template before {other} trains again")
        rolled[uid, worker] = _attempt(pod), operator.known.get(uid, 0)

    def _moved(self, uid: str, version: int) -> bool:
        """Tell whether other workers may have been wanted since a version of the spec."""
        specs = [job.spec for known, job in self._versions[uid].items() if known >= version]
        wanted = {tuple((each.name, each.replicas, each.min_replicas) for each in spec.workers) for spec in specs}
        return len(wanted) > 1 or any(spec.suspend or spec.most < spec.wanted for spec in specs)

    def _has_begun(self, uid: str) -> bool:
        status = self._statuses.get(uid)
        return status is not None and status.start_time is not None

    def _has_ended(self, uid: str) -> bool:
        status = self._statuses.get(uid)
        return status is not None and bool(_end_of(status))

    def _is_ending(self, uid: str, jobs: list[OmniLearnJob]) -> bool:
        """Tell whether a job has ended, whether or not that could be written."""
        failed = self.count(uid, Cause.FAILED)
        late = self._store.clock.seconds >= min(job.spec.startup_deadline_seconds for job in jobs)
        late = late and not self._has_begun(uid)
        many = any(failed > job.spec.restart.max_failures for job in jobs)
        return self._scripts.of(uid).released or many or late

    def count(self, uid: str, *causes: Cause) -> int:
        """Return how many pods of a job really ended so."""
        return sum(self._nodes.causes.get(each) in causes for each in self._nodes.pods_of.get(uid, ()))

    def uncounted(self) -> str:
        """Return which failures were never counted, of pods that are there for everybody to see."""
        for job in map(OmniLearnJob.from_manifest, self._store.every(names.KIND)):
            uid, status = job.metadata.uid or "", job.status or JobStatus()
            failed = {each for each, cause in self._nodes.causes.items() if cause is Cause.FAILED} - self._nodes.marked
            there = [pod for pod in self._store.pods(uid) if uid_of(pod) in failed]
            counted = 0 if status.workers is None else status.workers.failures
            if not _end_of(status) and not self._scripts.of(uid).released and counted < len(there):
                return f"{counted} failures of {job.metadata.name} are counted, {len(there)} are there to be seen"
        return ""

    def _said(self, uid: str, job: OmniLearnJob) -> None:
        status, before = job.status or JobStatus(), self._statuses.get(uid, JobStatus())
        self._statuses[uid] = status
        now, then = status.workers or WorkerCounts(), before.workers or WorkerCounts()
        if now.failures < then.failures or now.preemptions < then.preemptions:
            self.violations.append(f"the counts run backwards: {then} → {now}")
        if _end_of(before) and _end_of(before) != _end_of(status):
            self.violations.append(f"an end is undone: {_end_of(before)} → {_end_of(status)}")
        if len(json.dumps(status.to_manifest())) > _LARGEST_STATUS:
            self.violations.append("the status grows too large")
        self._check_counts(uid, status)

    def _check_counts(self, uid: str, status: JobStatus) -> None:
        if status.workers is None:
            return
        failed, counted = self.count(uid, Cause.FAILED), status.workers
        let_go = [Cause.LET_GO] if self.deaths else []
        most = self.count(uid, Cause.FAILED, Cause.TAKEN, *let_go)
        if counted.failures > failed:
            self.violations.append(f"{counted.failures} failures are counted, of {failed} that there were")
        if counted.failures + counted.preemptions > most:
            self.violations.append(f"{counted} counts more ends than the {most} that there were")


def _end_of(status: JobStatus) -> str:
    return next((each.type for each in status.conditions if each.type in _ENDS and each.status == "True"), "")


def _group(pod: Manifest) -> str:
    return str(pod["metadata"]["labels"][names.GROUP_LABEL])


def _replicas(job: OmniLearnJob, group: str) -> int:
    return next((each.replicas for each in job.spec.workers if each.name == group), 0)


def _room(job: OmniLearnJob, group: str) -> int:
    """Return how many workers of a group there may be at most, so that the others have what they need."""
    needed = sum(each.min_replicas for each in job.spec.workers if each.name != group)
    return min(_replicas(job, group), job.spec.most - needed)


def _attempt(pod: Manifest) -> int:
    return int(pod["metadata"]["labels"][names.ATTEMPT_LABEL])
