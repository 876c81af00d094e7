"""How a changed template reaches the pods: worker by worker, and never so that fewer train than the job needs. Pure.

Whoever trains holds the model. A job without a checkpoint that loses all of them at once has lost its progress.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from omnilearn_coordinator.view import Phase
from omnilearn_core.api.job import OmniLearnJob

from . import delays
from .book import Book
from .manifests.pods import Worker
from .observed import Pod
from .status import Seen, members_in
from .workforce import Create, Delete

Outdated = Sequence[tuple[Delete, Create]]


@dataclass(frozen=True, slots=True)
class Crew:
    """The workers that a job should have, and how each of them is."""

    wanted: frozenset[str]
    training: frozenset[str]
    """Those that are members with the pod that they should have."""

    stuck: frozenset[str]
    """Those whose pod the cluster does not run: nobody knows when it will."""


def crew_of(seen: Seen, book: Book, wanted: Mapping[str, Worker], outdated: Outdated) -> Crew:
    """Return who trains of those who are wanted: not who is about to go, nor a former attempt."""
    going = {goes.uid for goes, _ in outdated if goes.uid in book.let_go}
    newest: dict[str, Pod] = {}
    for pod in sorted(delays.explained(seen.pods, book), key=lambda each: each.attempt):
        newest[pod.worker] = pod
    well = {name: pod for name, pod in newest.items() if name in wanted and not pod.over and pod.uid not in going}
    members = {(member.worker, member.attempt) for member in members_in(seen.view)}
    return Crew(
        wanted=frozenset(wanted),
        training=frozenset(name for name, pod in well.items() if (name, pod.attempt) in members),
        stuck=frozenset(name for name, pod in well.items() if pod.stuck and not pod.running),
    )


def next_to_go(
    seen: Seen, book: Book, crew: Crew, outdated: Outdated, refused: Collection[str]
) -> Sequence[tuple[Delete, Create]]:
    """Return which pods of a former template go now; ``refused`` are workers whose next pod is not taken.

    What does not run goes at once, and everything before the first step. Then it is one worker at a time: when all
    others train, but for those that cannot be had, and when enough are left. Whoever was replaced has to train before
    the next one goes, so that a template that does not work costs one worker.
    """
    pods = {pod.uid: pod for pod in seen.pods}
    idle = [pair for pair in outdated if not pods[pair[0].uid].running and pair[1].name not in crew.training]
    busy = [pair for pair in outdated if pair not in idle]
    if not _has_begun(seen, book):
        idle, busy = [*idle, *(pair for pair in busy if pair[1].name not in crew.training)], []
    going = [pair for pair in busy if pair[0].uid in book.let_go]
    return [*idle, *(going or list(_one(seen, book, crew, busy, refused)))]


def _one(
    seen: Seen, book: Book, crew: Crew, busy: Outdated, refused: Collection[str]
) -> Iterator[tuple[Delete, Create]]:
    """Return the one worker of those that run whose turn it is; none while others are on their way."""
    view, fewest = seen.view, seen.job.spec.fewest
    if view is None or view.phase is not Phase.RUNNING or view.generation is None or book.replaced & _away(crew):
        return
    unsteady = _away(crew) - crew.stuck - frozenset(refused)
    strangers = [pair for pair in busy if pair[1].name not in crew.training]
    if strangers and len(crew.training) >= fewest:
        yield strangers[0]  # it runs, but does not train: the model is with the others
    elif busy and not unsteady and len(crew.training) > fewest:
        yield busy[0]


def _away(crew: Crew) -> frozenset[str]:
    return crew.wanted - crew.training


def _has_begun(seen: Seen, book: Book) -> bool:
    """Tell whether there may be something to lose: a step was committed, or a pod bears a share."""
    return book.started is not None or any(pod.assigned is not None for pod in seen.pods if not pod.over)


def sentence(job: OmniLearnJob, crew: Crew, outdated: Outdated) -> str:
    """Say how far a rollout is, and whether it cannot go on; nothing if there is none."""
    if not outdated:
        return ""
    said, fewest = f"{len(outdated)} of {len(crew.wanted)} pods are of a former template", job.spec.fewest
    if len(crew.training) < fewest:
        return f"{said}: those that run are kept until enough workers train; delete them to have them replaced now"
    full = len(crew.training) == fewest and _away(crew) <= crew.stuck
    if full and any(comes.name in crew.training for _, comes in outdated):
        what = "add workers, lower minWorkers or minReplicas, or suspend the job and resume it"
        return f"{said}: they are kept, because the job needs all {fewest} workers that train; {what}"
    return f"{said}: they are replaced one by one, each when the others train"
