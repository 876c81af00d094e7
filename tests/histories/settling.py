"""Whether all is as it should be, once nothing happens any more."""

from __future__ import annotations

from collections import Counter

from omnilearn_core.api import names
from omnilearn_core.api.job import OmniLearnJob
from omnilearn_core.api.status import JobStatus
from omnilearn_operator.api import Manifest
from omnilearn_operator.manifests.pods import template_hash

from .store import Store, has_ended, is_over, owner_of, runs, uid_of, worker_of
from .training import Scripts


def unsettled(store: Store, scripts: Scripts) -> str:
    """Return what is not as it should be; nothing if all is."""
    jobs = store.every(names.KIND)
    orphans = [pod["metadata"]["name"] for pod in store.pods() if owner_of(pod) not in map(uid_of, jobs)]
    if orphans:
        return f"pods without a job: {orphans}"
    for found in jobs:
        job = OmniLearnJob.from_manifest(found)
        why = _unsettled(job, store.pods(uid_of(found)), at_its_end=scripts.of(uid_of(found)).at_its_end)
        if why:
            return f"{job.metadata.name}: {why}"
    return ""


def _unsettled(job: OmniLearnJob, pods: list[Manifest], *, at_its_end: bool) -> str:
    status = job.status or JobStatus()
    left = [pod["metadata"]["name"] for pod in pods if "deletionTimestamp" in pod["metadata"]]
    live = [pod for pod in pods if not is_over(pod)]
    ended = any(each.type in ("Complete", "Failed") and each.status == "True" for each in status.conditions)
    if left:
        return f"pods that were told to go are still there: {left}"
    if ended or job.spec.suspend:
        return (
            f"pods of a job that has ended or is suspended: {len(live)}" if live else _phase(status, job, ended=ended)
        )
    if at_its_end and job.spec.most >= job.spec.fewest:
        return "the script has come to its end, the job has not"
    return _not_wanted(job, live) or _not_well(job, live) or _told(status, len(live), job)


def _not_wanted(job: OmniLearnJob, live: list[Manifest]) -> str:
    workers = Counter(map(worker_of, live))
    groups = Counter(worker.rpartition("-")[0].rpartition("-")[2] for worker in workers)
    if len(live) != job.spec.most or max(workers.values(), default=1) > 1:
        return f"there are {sorted(workers.elements())}, wanted are {job.spec.most}"
    for group in job.spec.workers:
        if not group.min_replicas <= groups[group.name] <= group.replicas:
            return f"{groups[group.name]} workers of {group.name} are not what it wants"
    return ""


def _not_well(job: OmniLearnJob, live: list[Manifest]) -> str:
    hashes = {template_hash(group) for group in job.spec.workers}
    for pod in live:
        if not runs(pod) or has_ended(pod):
            return f"{pod['metadata']['name']} does not run"
        # Where the job needs everybody, a pod that trains is kept.
        former = pod["metadata"]["annotations"][names.TEMPLATE_HASH_ANNOTATION] not in hashes
        if former and job.spec.most > job.spec.fewest:
            return f"{pod['metadata']['name']} is of a former template"
    return ""


def _phase(status: JobStatus, job: OmniLearnJob, *, ended: bool) -> str:
    if not ended and status.phase != "Suspended":
        return f"the job is suspended, its status says {status.phase}"
    if status.members or status.samples_per_second is not None:
        return "nobody trains, the status shows members"
    if status.workers is None or status.workers.ready:
        return f"no pod runs, the status says {status.workers}"
    return "" if status.observed_generation == job.metadata.generation else "the status is of a former version"


def _told(status: JobStatus, count: int, job: OmniLearnJob) -> str:
    workers = status.workers
    if workers is None or (workers.ready, workers.desired, workers.members) != (count, count, count):
        return f"{count} workers train, the status says {workers}"
    if count >= job.spec.fewest and status.phase != "Running":
        return f"enough workers train, the status says {status.phase}"
    return "" if status.observed_generation == job.metadata.generation else "the status is of a former version"
