"""The state of a job's membership, and the questions that all rules ask of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from omnilearn_coordinator.settings import JobSettings
from omnilearn_core.api.messages import Change, Done, Join, MemberAddress
from omnilearn_core.api.strategy import Choice, StrategyType

from .actions import Action, Happening, Kind
from .generation import Generation, Worker

# Older generations than these are nobody's business any more.
_LONGEST_CHAIN = 8
# Where many workers report rarely, a report that is late is not taken for silence.
_REPORTS_BEFORE_SILENCE = 2.5


@dataclass(frozen=True, slots=True)
class Claim:
    """What a worker says of the generation it is in, to a coordinator that knows of none."""

    attempt: int
    join: Join
    broken: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the job ended, and what each worker said at its end."""

    complete: bool
    why: str
    done: Mapping[str, Done] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class State:
    """Everything that membership is decided from. The nonce is new with every coordinator."""

    settings: JobSettings
    nonce: str
    term: int = 1
    highest: int = 0
    """The highest generation number that anybody has seen."""

    workers: Mapping[str, Worker] = field(default_factory=dict)
    attempts: Mapping[str, int] = field(default_factory=dict)
    """The newest attempt of each worker that ever connected."""

    chain: tuple[Generation, ...] = ()
    """The standing generation, if there is one, then those that were assigned after it; the last one counts."""

    claims: Mapping[str, Claim] = field(default_factory=dict)
    adopting_since: float | None = None
    crowd_arrived: float = 0.0
    """When the last worker of any job has come, while those of all jobs come back at once; else 0."""

    report_seconds: float = 1.0
    """The longest pause between two reports that a worker may go by."""

    last_change: float = 0.0
    """When the last worker joined or was lost."""

    step: int = -1
    round: int = -1
    progressed_at: float = 0.0
    futile: int = 0
    """Regroups in a row, without a lost connection, after which no new round was committed."""

    misses: Mapping[str, int] = field(default_factory=dict)
    """How often each worker has not built a group since then."""

    failed_plans: int = 0
    """Planned generations in a row that were not entered."""

    planned_not_before: float = 0.0
    choice: Choice | None = None
    """What Auto has chosen; every generation from then on has it."""

    regroups: int = 0
    waiting: str | None = None
    outcome: Outcome | None = None
    outbox: tuple[Action, ...] = ()

    @property
    def silent_after(self) -> float:
        """How long a worker may be silent: as the job says, or longer in a crowd in which everybody reports rarely."""
        rarely = _REPORTS_BEFORE_SILENCE * self.report_seconds if self.report_seconds > 1.0 else 0.0
        return max(self.settings.silent_after, rarely)

    @property
    def newest(self) -> Generation | None:
        """The generation that was assigned last."""
        return self.chain[-1] if self.chain else None

    @property
    def standing(self) -> Generation | None:
        """The newest generation that anybody has entered."""
        return self.chain[0] if self.chain and self.chain[0].entered else None

    @property
    def is_choosing(self) -> bool:
        """True as long as Auto has not chosen."""
        return self.settings.strategy.type is StrategyType.AUTO and self.choice is None

    def holders(self) -> list[Worker]:
        """Return the connected workers that hold the newest model, in their old order.

        Who has entered a generation holds its model. So does a member of its predecessor that is still on its way:
        nobody commits a round of the new generation before all its members have entered it, so their rounds differ
        by at most one, and the roll call of the next generation takes the highest. A leaver holds it as long as the
        generation without it has not been entered by all, for the same reason.
        """
        order = {name: k for generation in self.chain for k, name in enumerate(generation.names)}
        held = [worker for worker in self.workers.values() if worker.active and worker.holds]
        return sorted(held, key=lambda worker: (order.get(worker.name, len(order)), worker.name))

    def is_present(self, member: MemberAddress, generation: Generation) -> bool:
        """Tell whether a member is connected, and has not come back as a joiner meanwhile."""
        worker = self.workers.get(member.worker)
        return (
            worker is not None
            and worker.active
            and worker.attempt == member.attempt
            and worker.after < generation.number
        )

    def missing(self, generation: Generation) -> list[MemberAddress]:
        """Return the members that are gone."""
        return [member for member in generation.members if not self.is_present(member, generation)]

    def joiners(self) -> list[Worker]:
        """Return the workers that could become members: they hold nothing that counts, and do not want to leave."""
        waiting = [w for w in self.workers.values() if w.active and not w.holds and not w.leaving]
        return sorted(waiting, key=lambda worker: (worker.joined or 0.0, worker.name))

    def is_member(self, worker: Worker) -> bool:
        """Tell whether a worker is in a generation that still counts."""
        return any(
            generation.member(worker.name, worker.attempt) is not None and worker.after < generation.number
            for generation in self.chain
        )

    def with_worker(self, worker: Worker) -> State:
        """Return the state with a worker put in or replaced."""
        return replace(self, workers={**self.workers, worker.name: worker})

    def without_worker(self, name: str) -> State:
        """Return the state without a worker."""
        return replace(self, workers={key: worker for key, worker in self.workers.items() if key != name})

    def with_generation(self, generation: Generation) -> State:
        """Return the state with a generation of the chain replaced."""
        return replace(self, chain=tuple(generation if g.id == generation.id else g for g in self.chain))

    def with_newest(self, generation: Generation) -> State:
        """Return the state with one more generation; a start makes all earlier ones worthless."""
        older = () if generation.change is Change.START else self.chain
        if len(older) >= _LONGEST_CHAIN:
            older = (older[0], *older[2 - _LONGEST_CHAIN :])
        return replace(self, chain=(*older, generation), highest=generation.number)

    def wanting(self, *actions: Action) -> State:
        """Return the state with more to be done."""
        return replace(self, outbox=(*self.outbox, *actions))

    def telling(self, kind: Kind, sentence: str, worker: str | None = None) -> State:
        """Return the state with something to tell people."""
        return self.wanting(Happening(kind, sentence, worker))

    def waiting_for(self, why: str | None) -> State:
        """Return the state that waits for something; people are told when that changes."""
        if why == self.waiting:
            return self
        after = replace(self, waiting=why)
        return after if why is None else after.telling(Kind.WAITING, why)

    def progressed(self, now: float, *, round_: int = -1, step: int = -1) -> State:
        """Return the state after news of a round or step; if it is a new one, earlier trouble is forgiven."""
        if round_ <= self.round and step <= self.step:
            return self
        after = replace(self, round=max(round_, self.round), step=max(step, self.step), progressed_at=now)
        # The first that is heard of after a start is where it begins, not progress.
        if 0 <= self.round < round_ or 0 <= self.step < step:
            after = replace(after, futile=0, misses={})
        return after


def listing(names: Iterable[str]) -> str:
    """Return names for a sentence, at most five of them."""
    all_names = list(names)
    shown = ", ".join(all_names[:5])
    return shown if len(all_names) <= 5 else f"{shown} and {len(all_names) - 5} more"
