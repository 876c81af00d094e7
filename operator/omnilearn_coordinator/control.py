"""From reports to plans: collects what the members measured and asks the job's control law once per period.

The driver hands it every report and every new generation; there is no clock and no I/O in here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from omnilearn_core.api.messages import GenerationId, MemberAddress, Plan, WorkerReport
from omnilearn_core.api.strategy import StrategyType
from omnilearn_core.control.law import Decision as LawDecision
from omnilearn_core.control.law import State as MemoryOfLaw
from omnilearn_core.control.law import decide
from omnilearn_core.control.laws import LAWS, BadStateError, from_json, to_json
from omnilearn_core.control.reports import Member, Report, Situation
from omnilearn_core.control.shares import ImpossibleSplitError, apportion
from omnilearn_core.control.tail import tail_samples

from .membership.generation import Generation
from .settings import JobSettings

# A period ends when everybody has measured something, or after so many pauses between reports if anybody has.
_PERIOD_REPORTS = 2.0
_KEPT_DECISIONS = 10

# What a step may take. A worker can claim anything between 0 and for ever; what a law learns from that must be numbers.
_SHORTEST_STEP, _LONGEST_STEP = 1e-6, 1e6

# What a message may hold; a state that is larger is not kept by rank 0.
_LARGEST_STATE = 3 * 2**20


class Decision(NamedTuple):
    """A plan and why, with the coordinator's clock."""

    at: float
    why: str


@dataclass(slots=True)
class _Measured:
    """What a member has measured in this period."""

    steps: int = 0
    seconds: float = 0.0
    ended: float = 0.0
    quota: float | None = None


class Control:
    """The plan in force and how it came to be."""

    def __init__(self, settings: JobSettings) -> None:
        self._settings = settings
        # The law thinks in units: a share of local steps is a whole number of them.
        self._unit = settings.strategy.unit
        self._law = LAWS[settings.law]
        self._state: MemoryOfLaw[Any] | None = None
        self._members: tuple[MemberAddress, ...] = ()
        self._quotas: dict[str, float | None] = {}
        self._measured: dict[str, _Measured] = {}
        self._period_begun = 0.0
        self._epoch = 0
        self._version = 0
        self._kept_state: str | None = None
        self._step_seconds: float | None = None
        self._tail = 0
        self._tailed = True
        self._wholes: set[str] = set()
        self.plan: Plan | None = None
        self.changes = 0
        self.decisions: deque[Decision] = deque(maxlen=_KEPT_DECISIONS)
        self.impossible: str | None = None
        """Why the bounds had to be ignored, if they had."""

    @property
    def lead(self) -> str | None:
        """The worker of rank 0, that keeps the law's state."""
        return self._members[0].worker if self._members else None

    def know_quota(self, worker: str, quota: float | None) -> None:
        """Note the CPUs that a worker may use."""
        if quota is not None:
            self._quotas[worker] = quota

    def begin(self, generation: Generation, now: float) -> Plan:
        """Return the plan with which a generation begins; the shares of those known are remembered."""
        self._follow(generation)
        self._decide(now, ())
        return self._new_plan(generation.id)

    def adopt(self, generation: Generation, plan: Plan | None, law_state: str | None, now: float) -> str | None:
        """Go on with a generation's plan; return a sentence if the law's state could not be used."""
        trouble = None
        self._follow(generation)
        state: MemoryOfLaw[Any] = MemoryOfLaw(self._law.name, self._law.fresh(), 0, {}, {}, {})
        if law_state is not None:
            try:
                state = from_json(self._law.name, law_state)
            except BadStateError as error:
                trouble = f"{error}; the law starts afresh"
        self._period_begun, self._measured = now, {}
        if plan is None or plan.shares.keys() != set(generation.names):
            self._state = replace(state, newest={})
            self.begin(generation, now)
            return trouble
        # Times of another coordinator's clock mean nothing on this one.
        self._state = replace(state, shares={k: v // self._unit for k, v in plan.shares.items()}, newest={})
        self._version, self.plan, self._tail = plan.version, plan, plan.tail
        return trouble

    def _follow(self, generation: Generation) -> None:
        """Take over who is in a generation; only Synchronous has a tail."""
        self._members, choice = generation.members, generation.choice
        self._tailed = choice is None or choice.type is StrategyType.SYNCHRONOUS

    def hear(self, report: WorkerReport, now: float) -> None:
        """Take in what a member has measured under the plan in force."""
        plan = self.plan
        self.know_quota(report.worker, report.cpu_quota)
        self._epoch = max(self._epoch, report.epoch)
        (self._wholes.discard if report.in_pieces else self._wholes.add)(report.worker)
        if plan is None or report.generation != plan.generation or report.plan_version != plan.version:
            return
        if report.steps < 1 or plan.shares.get(report.worker) != report.share:
            return
        if not self._measured:
            self._period_begun = now
        measured = self._measured.setdefault(report.worker, _Measured(quota=report.cpu_quota))
        if measured.quota != report.cpu_quota:
            measured = self._measured[report.worker] = _Measured(quota=report.cpu_quota)
        measured.steps += report.steps
        measured.seconds += report.steps * min(max(report.compute_seconds, _SHORTEST_STEP), _LONGEST_STEP)
        measured.ended = now

    @property
    def is_complete(self) -> bool:
        """Whether all members have measured something in this period."""
        return len(self._measured) >= len(self._members) > 0

    def look(self, now: float, report_seconds: float = 1.0) -> Plan | None:
        """Return a new plan if a period has ended and the law wants one; members report every so many seconds."""
        if self.plan is None or not self._measured:
            return None
        if not self.is_complete and now - self._period_begun < _PERIOD_REPORTS * report_seconds:
            return None
        self._step_seconds = max(m.seconds / m.steps for m in self._measured.values())
        reports = tuple(
            Report(worker, self.plan.shares[worker] // self._unit, m.seconds / m.steps, m.ended, m.quota)
            for worker, m in self._measured.items()
            if self.plan.shares[worker] > 0
        )
        if not self._decide(now, reports):
            return None
        self.changes += 1
        return self._new_plan(self.plan.generation)

    def state_to_keep(self) -> str | None:
        """Return the law's state for rank 0, if it has changed since the last time."""
        if self._state is None:
            return None
        text = to_json(self._state).decode()
        if text == self._kept_state or len(text) > _LARGEST_STATE:
            return None
        self._kept_state = text
        return text

    def forget_kept_state(self) -> None:
        """Give the law's state to the next rank 0, even if it has not changed."""
        self._kept_state = None

    def _decide(self, now: float, reports: tuple[Report, ...]) -> bool:
        self._period_begun, self._measured = now, {}
        before = dict(self._state.shares) if self._state else {}
        settings, members = self._settings, tuple(map(self._member, self._members))
        percent = settings.tail_percent if self._tailed else 0
        self._tail = tail_samples(settings.global_batch, members, percent, settings.law, self._step_seconds, self._tail)
        units = (settings.global_batch - self._tail) // self._unit
        situation = Situation(units, members, now, reports, self._epoch)
        try:
            decision: LawDecision[Any] = decide(self._law, self._state, situation)
        except ImpossibleSplitError as error:
            self.impossible = str(error)
            state = self._state or MemoryOfLaw(self._law.name, self._law.fresh(), 0, {}, {}, {})
            self._state = replace(state, shares=_equal(situation))
            why = f"equal shares, because {error}"
        else:
            self.impossible, self._state, why = None, decision.state, decision.why
        changed = self._state.shares != before
        if changed:
            self.decisions.append(Decision(now, why))
        return changed

    def _member(self, member: MemberAddress) -> Member:
        group, least = self._settings.group_of(member.worker), self._settings.min_per_worker
        most = self._settings.max_per_worker
        if self._settings.only_serves(member.worker) and len(self._members) > 1:
            least = most = 0
        return Member(
            worker=member.worker,
            group=group.name,
            device=member.device,
            minimum=-(-least // self._unit),
            maximum=None if most is None else most // self._unit,
            capacity=group.capacity,
            quota=self._quotas.get(member.worker) if member.device == "cpu" else None,
            in_pieces=member.worker not in self._wholes,
        )

    def _new_plan(self, generation: GenerationId) -> Plan:
        shares: Mapping[str, int] = self._state.shares if self._state else {}
        self._version += 1
        self.plan = Plan(
            generation=generation,
            version=self._version,
            global_batch=self._settings.global_batch,
            shares={worker: share * self._unit for worker, share in shares.items()},
            tail=self._tail,
        )
        return self.plan


def _equal(situation: Situation) -> dict[str, int]:
    """Split equally, within the upper bounds if they allow it: with the tail, a plan has to sum to the global batch."""
    count, total = len(situation.members), situation.global_batch
    highs = [high for _, high in situation.bounds()]
    if sum(highs) < total:
        highs = [total] * count
    shares = apportion(total, [1.0] * count, [(0, high) for high in highs])
    return {member.worker: share for member, share in zip(situation.members, shares, strict=True)}
