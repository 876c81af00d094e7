"""What is told as Kubernetes events: which happenings are worth one, and in which words. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from omnilearn_coordinator.membership.actions import Happening, Kind
from omnilearn_core.api.names import ConditionType, Reason
from omnilearn_core.api.status import ConditionStatus, JobStatus
from omnilearn_core.endings import Meaning

from .conditions import Facts
from .endings import Ending

_LONGEST = 1000

_WORTH_TELLING = {
    Kind.JOINED: (Reason.WORKER_JOINED, False),
    Kind.LOST: (Reason.WORKER_LOST, True),
    Kind.LEFT: (Reason.WORKER_LEFT, False),
    Kind.FAILED: (Reason.WORKER_FAILED, True),
    Kind.ADOPTED: (Reason.COORDINATOR_ADOPTED, False),
    Kind.ENTERED: (Reason.REGROUPED, False),
    Kind.CHOSEN: (Reason.STRATEGY_CHOSEN, False),
    Kind.PLAN: (Reason.BATCH_REBALANCED, False),
}


@dataclass(frozen=True, slots=True)
class Note:
    """An event of a job."""

    reason: Reason | str
    message: str
    warning: bool = False

    @property
    def kind(self) -> str:
        """Kubernetes' word for how grave it is."""
        return "Warning" if self.warning else "Normal"


def of_happening(happening: Happening) -> Note | None:
    """Return the event of what a coordinator tells, if it is worth one."""
    worth = _WORTH_TELLING.get(happening.kind)
    if worth is None:
        return None
    reason, warning = worth
    return Note(reason, happening.sentence[:_LONGEST], warning)


def of_endings(endings: Iterable[Ending]) -> list[Note]:
    """Return the events of pods that ended; that a worker has finished is what was meant to happen."""
    told = []
    for ending in endings:
        if ending.meaning is Meaning.PREEMPTED:
            told.append(Note(Reason.WORKER_PREEMPTED, ending.sentence[:_LONGEST]))
        elif ending.meaning is Meaning.OUT_OF_MEMORY:
            told.append(Note(Reason.WORKER_OUT_OF_MEMORY, ending.sentence[:_LONGEST], warning=True))
        elif ending.meaning is Meaning.FAILED:
            told.append(Note(Reason.WORKER_FAILED, ending.with_words[:_LONGEST], warning=True))
    return told


def of_missed(workers: Iterable[str]) -> list[Note]:
    """Return the events of workers whose pods went while no operator looked."""
    return [Note(Reason.WORKER_PREEMPTED, f"{worker} was taken away while no operator looked") for worker in workers]


def of_facts(before: JobStatus, facts: Facts) -> list[Note]:
    """Return the events of conditions that have become true, or are untrue for another reason than before."""
    known = {each.type: (each.status is ConditionStatus.TRUE, each.reason) for each in before.conditions}
    told = []
    for kind, fact in facts.items():
        was_true, reason = known.get(str(kind), (False, ""))
        grave = kind is ConditionType.FAILED or fact.reason in (Reason.BAD_TEMPLATE, Reason.POD_REFUSED)
        news = fact.holds and not was_true
        worth = grave or fact.reason == Reason.ROLLING_OUT
        if (news and kind is not ConditionType.DEGRADED) or (worth and reason != fact.reason):
            told.append(Note(fact.reason, fact.message[:_LONGEST], grave))
    return told
