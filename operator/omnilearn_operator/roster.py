"""Which workers a job should have now: from the spec, the pods that are there, and how useful their workers are. Pure.

Whoever is there keeps its place as long as there are places. Where there are fewer places than workers, the least
useful ones go: those that do not train yet before those that do, those that do little before those that do much, the
newer before the older. A server of its own computes nothing, and stays while there is room for somebody who does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from omnilearn_coordinator.view import MemberState, MemberView
from omnilearn_core.api import names
from omnilearn_core.api.job import LawName, OmniLearnJob, WorkerGroup
from omnilearn_core.api.status import MemberStatus

from .manifests.pods import Worker
from .observed import Pod

_Rank = tuple[float, ...]
_TRAIN = (MemberState.TRAINING, MemberState.DONE)


def uses_of(job: OmniLearnJob, told: Iterable[MemberStatus], members: Iterable[MemberView]) -> dict[str, float]:
    """Return how useful the members that train are, as they are now, else as the status ``told`` last.

    A window's speed alone misleads: where a step is shorter than a period of the CPU's quota, a small worker looks
    fast. A share is what the law has learned of all windows; before there are any, of the CPUs. So both count, where
    the law has them differ. Whoever was not measured yet is taken to be as fast as its share says.
    """
    known = {each.worker: (each.share, each.samples_per_second) for each in told}
    for each in members:
        if each.state in _TRAIN:
            share, speed = known.get(each.worker, (0, 0.0))
            known[each.worker] = (each.share or share, each.samples_per_second or speed)
    measured = [speed / share for share, speed in known.values() if share and speed]
    usual = sum(measured) / len(measured) if measured else 1.0
    equal = job.spec.law is LawName.UNIFORM
    return {worker: (speed or share * usual) * (1 if equal else share) for worker, (share, speed) in known.items()}


def roster(job: OmniLearnJob, pods: Sequence[Pod], uses: Mapping[str, float]) -> dict[str, Worker]:
    """Return the workers that a job should have, by name; ``uses`` is how useful its members are."""
    if job.spec.suspend:
        return {}
    ranks = _ranks(pods, uses)
    needed: list[tuple[str, Worker]] = []
    servers: list[tuple[str, Worker]] = []
    others: list[tuple[str, Worker]] = []
    for group in job.spec.workers:
        best = sorted(_places(job, group, pods), key=lambda place: (*_rank(place[0], ranks), place[1].index))
        needed += best[: group.min_replicas]
        (servers if job.spec.keeps_for_serving(group) else others).extend(best[group.min_replicas : group.replicas])
    # Of those without a pod, the sort keeps the order: groups are filled one after the other.
    others.sort(key=lambda place: _rank(place[0], ranks))
    chosen = {name for name, _ in (needed + servers + others)[: job.spec.most]}
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


def _ranks(pods: Iterable[Pod], uses: Mapping[str, float]) -> dict[str, _Rank]:
    """Return the order of the workers with a pod: the lower, the more useful."""
    newest: dict[str, Pod] = {}
    for pod in pods:
        if pod.worker not in newest or pod.attempt > newest[pod.worker].attempt:
            newest[pod.worker] = pod
    return {name: _rank_of(pod, uses.get(name)) for name, pod in newest.items()}


def _rank_of(pod: Pod, use: float | None) -> _Rank:
    if pod.over:
        return (3.0,)  # its next attempt is to come
    if use is not None:
        return (0.0, -use, float(pod.attempt))
    return (1.0 if pod.running else 2.0,)
