"""Which workers a job should have now: from the spec, the pods that are there, and how fast their workers are. Pure.

Whoever is there keeps its place as long as there are places. Where there are fewer places than workers, the least
useful ones go: those that do not train yet before those that do, the slow before the fast, the newer before the older.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from omnilearn_core.api import names
from omnilearn_core.api.job import OmniLearnJob, WorkerGroup

from .manifests.pods import Worker
from .observed import Pod

_Rank = tuple[float, ...]


def roster(job: OmniLearnJob, pods: Sequence[Pod], speeds: Mapping[str, float]) -> dict[str, Worker]:
    """Return the workers that a job should have, by name; ``speeds`` are those of its members."""
    if job.spec.suspend:
        return {}
    ranks = _ranks(pods, speeds)
    needed: list[tuple[str, Worker]] = []
    others: list[tuple[str, Worker]] = []
    for group in job.spec.workers:
        best = sorted(_places(job, group, pods), key=lambda place: (*_rank(place[0], ranks), place[1].index))
        needed += best[: group.min_replicas]
        others += best[group.min_replicas : group.replicas]
    # Of those without a pod, the sort keeps the order: groups are filled one after the other.
    others.sort(key=lambda place: _rank(place[0], ranks))
    chosen = {name for name, _ in (needed + others)[: job.spec.most]}
    in_order = (place for group in job.spec.workers for place in _places(job, group, pods))
    return {name: worker for name, worker in in_order if name in chosen}


def _places(job: OmniLearnJob, group: WorkerGroup, pods: Iterable[Pod]) -> list[tuple[str, Worker]]:
    """Return the workers that a group could have: as many as it wants, and whoever is there under another number."""
    prefix = names.worker_name(job.metadata.name, group.name, 0)[:-1]
    there = {pod.worker.removeprefix(prefix) for pod in pods if pod.worker.startswith(prefix) and not pod.over}
    indices = set(range(group.replicas)) | {int(index) for index in there if index.isdecimal()}
    return [(f"{prefix}{index}", Worker(group, index)) for index in sorted(indices)]


def _rank(name: str, ranks: Mapping[str, _Rank]) -> _Rank:
    return ranks.get(name, (4.0,))


def _ranks(pods: Iterable[Pod], speeds: Mapping[str, float]) -> dict[str, _Rank]:
    """Return how useful each worker with a pod is: the lower, the more."""
    newest: dict[str, Pod] = {}
    for pod in pods:
        if pod.worker not in newest or pod.attempt > newest[pod.worker].attempt:
            newest[pod.worker] = pod
    return {name: _rank_of(pod, speeds.get(name)) for name, pod in newest.items()}


def _rank_of(pod: Pod, speed: float | None) -> _Rank:
    if pod.over:
        return (3.0,)  # its next attempt is to come
    if speed is not None:
        return (0.0, -speed, float(pod.attempt))
    return (1.0 if pod.running else 2.0,)
