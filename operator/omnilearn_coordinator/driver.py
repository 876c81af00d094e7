"""Joins membership, control and the wire: messages become events, actions become messages. Knows nothing of sockets.

The service calls it with what it has received; it answers through the `Wire` it was given.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Protocol

from omnilearn_core.api import messages
from omnilearn_core.api.frames import to_frame
from omnilearn_core.api.messages import (
    Change,
    FromWorker,
    GenerationId,
    Plan,
    Refused,
    Reply,
    Welcome,
    WorkerReport,
)

from . import membership
from .control import Control
from .crowd import Crowd, report_seconds
from .membership import events
from .membership.actions import Action, Adopt, Assign, Disconnect, Happening, Kind, Refuse, Release
from .membership.generation import Generation
from .probe import Probe, known_by
from .settings import JobSettings

logger = logging.getLogger(__name__)

# A tick that comes later than this was held up: the time does not count as anybody's silence.
_HELD_UP_SECONDS = 1.0

# Of whom nothing is heard for so long, or for so many reports, and whom others doubt, is lost.
_SECONDS_BEFORE_DOUBT, _REPORTS_BEFORE_DOUBT = 3.0, 1.5

# As many names of logged values as one report may have
_MOST_LOGGED = 64


class Wire(Protocol):
    """How the driver reaches workers. Nothing of it waits."""

    def send(self, connection: int, frame: str) -> None:
        """Send a frame."""
        ...

    def disconnect(self, connection: int, last: str | None = None) -> None:
        """Close a connection, after a last frame if there is one."""
        ...


class Driver:
    """One job: its membership, its control, and the newest report of each worker."""

    def __init__(
        self,
        settings: JobSettings,
        wire: Wire,
        tell: Callable[[Happening], None],
        *,
        term: int,
        nonce: str,
    ) -> None:
        self.settings, self._wire, self._tell = settings, wire, tell
        self.crowd = Crowd()
        self.state = membership.State(settings, nonce, term)
        self.control = Control(settings)
        self._probe = Probe(settings)
        self.measured: dict[str, WorkerReport] = {}
        self.leading: WorkerReport | None = None
        """The report of the highest step since the last start."""

        self.loss: float | None = None
        self.logged: dict[str, float] = {}

        self._heard: dict[str, tuple[events.Heard, float]] = {}
        self._memory_bounds: dict[str, int] = {}
        self._joins: dict[str, messages.Join] = {}
        self._replies: dict[tuple[GenerationId, int | None, float], str] = {}
        self._assignments: dict[GenerationId, str] = {}
        self._looked: float | None = None
        self._pause = 0.0

    @property
    def report_seconds(self) -> float:
        """How often a worker should report."""
        return max(self.crowd.report_seconds, report_seconds(len(self.state.workers)))

    def connected(self, worker: str, connection: int, attempt: int, now: float) -> None:
        """Take in a new connection and welcome it."""
        self.state = membership.observe(self.state, events.Connected(worker, connection, attempt), now)
        record = self.state.workers.get(worker)
        if record is None or record.connection != connection:
            return
        standing = self.state.standing
        welcome = Welcome(
            term=self.state.term,
            global_batch=self.settings.global_batch,
            running=standing is not None or self.state.adopting_since is not None,
            epoch=self.leading.epoch if self.leading and standing else 0,
            strategy=self.settings.strategy,
            memory_bound=self._memory_bounds.get(worker),
            report_seconds=self.report_seconds,
        )
        self._send(worker, to_frame(welcome))

    def closed(self, worker: str, connection: int, now: float) -> None:
        """Take in that a connection is gone."""
        self.state = membership.observe(self.state, events.Closed(worker, connection), now)
        if worker not in self.state.workers:
            self.measured.pop(worker, None)

    def retire(self, worker: str, attempt: int, why: str, now: float) -> bool:
        """Take a worker for one that has asked to leave; return whether that is news."""
        record = self.state.workers.get(worker)
        if record is None or record.attempt != attempt or record.leaving:
            return False
        self.state = membership.observe(self.state, events.Leaving(worker, record.connection, why), now)
        return True

    def doubt(self, doubtful: Collection[tuple[str, int]], why: str, now: float) -> None:
        """Lose those of some workers, each with its attempt, that were not heard of for a few reports."""
        self._take_in_reports(now)
        limit = max(_SECONDS_BEFORE_DOUBT, _REPORTS_BEFORE_DOUBT * self.state.report_seconds)
        self.state = membership.without_silent(self.state, limit, now, doubtful, why)

    def said(self, worker: str, connection: int, message: FromWorker, now: float) -> bool:
        """Take in a message; return whether it is time to `look`: a report is only the last one of a period."""
        if isinstance(message, WorkerReport):
            self._reported(worker, connection, message, now)
            return self.control.is_complete
        if isinstance(message, messages.Join):
            self._joins[worker] = message
            self.control.know_quota(worker, message.cpu_quota)
            event: events.Event = events.Joined(worker, connection, message)
        else:
            event = events.of_message(worker, connection, message)
        self.state = membership.observe(self.state, event, now)
        return True

    def look(self, now: float) -> float:
        """Do everything that is due; return in how many seconds to look again at the latest."""
        self._take_in_reports(now)
        self._look_around(now)
        late = 0.0 if self._looked is None else now - self._looked - self._pause
        if late > _HELD_UP_SECONDS:
            self.state = membership.observe(self.state, events.HeldUp(late), now)
        self._choose(now)
        self.state, actions = membership.act(self.state, now)
        for action in actions:
            self._do(action, now)
        self._plan(now)
        self._looked, self._pause = now, membership.next_look(self.state, now)
        return self._pause

    def _look_around(self, now: float) -> None:
        """Take in what there is to know of the workers of other jobs."""
        seconds, arrived = self.crowd.longest_pause(self.report_seconds, now), self.crowd.arrived(now)
        if (seconds, arrived) != (self.state.report_seconds, self.state.crowd_arrived):
            self.state = replace(self.state, report_seconds=seconds, crowd_arrived=arrived)

    def _take_in_reports(self, now: float) -> None:
        """Have the state machine hear of all who have reported since it was last looked at."""
        if self._heard:
            self.state = membership.observe(self.state, events.HeardAll(tuple(self._heard.values())), now)
            self._heard = {}

    def _do(self, action: Action, now: float) -> None:
        match action:
            case Assign():
                self._send(action.worker, self._assignment(action.generation, now))
            case Release():
                self._send(action.worker, to_frame(messages.Release(why=action.why[:2000], failed=action.failed)))
            case Refuse():
                frame = to_frame(Refused(status=409, sentence=action.sentence[:2000]))
                self._wire.disconnect(action.connection, frame)
            case Disconnect():
                self._wire.disconnect(action.connection)
            case Adopt():
                self._adopt(action.generation, now)
            case Happening():
                self._happened(action)

    def _send(self, worker: str, frame: str) -> None:
        record = self.state.workers.get(worker)
        if record is not None:
            self._wire.send(record.connection, frame)

    def _happened(self, happening: Happening) -> None:
        logger.info("%s: %s", self.settings.name, happening.sentence)
        self._tell(happening)

    def _assignment(self, generation: Generation, now: float) -> str:
        frame = self._assignments.get(generation.id)
        if frame is None:
            before = self.control.impossible
            plan = self.control.begin(generation, now)
            self.control.forget_kept_state()
            if generation.change is Change.START:
                self.leading = None
            if self.control.impossible is not None and self.control.impossible != before:
                self._happened(Happening(Kind.PLAN, f"the bounds cannot be kept: {self.control.impossible}"))
            frame = to_frame(
                messages.Assignment(
                    term=self.state.term,
                    generation=generation.id,
                    change=generation.change,
                    members=list(generation.members),
                    plan=plan,
                    choice=generation.choice,
                )
            )
            self._assignments = {generation.id: frame}  # an older one is never told again
        return frame

    def _adopt(self, adopted: GenerationId, now: float) -> None:
        generation = next(g for g in self.state.chain if g.id == adopted)
        joins = [self._joins[name] for name in generation.names if name in self._joins]
        plans = [join.plan for join in joins if join.plan is not None and join.plan.generation == adopted]
        plan = max(plans, key=lambda one: one.version, default=None)
        kept = next((join.law_state for join in joins if join.law_state is not None), None)
        sentence = self.control.adopt(generation, plan, kept, now)
        if sentence is not None:
            self._happened(Happening(Kind.PLAN, sentence))

    def _reported(self, worker: str, connection: int, report: WorkerReport, now: float) -> None:
        self._heard[worker] = events.Heard(worker, connection, report.generation, report.step), now
        record = self.state.workers.get(worker)
        if record is None or record.connection != connection:
            return
        known = known_by(report, self.measured.get(worker))
        if known is not None:
            self.measured[worker] = known
        if report.memory_bound is None:
            self._memory_bounds.pop(worker, None)
        else:
            self._memory_bounds[worker] = report.memory_bound
        if self.leading is None or report.step >= self.leading.step:
            self.leading = report
            self.loss = self.loss if report.loss is None else report.loss
            # Names that nobody logs any more make room: a script must not make up new ones for ever.
            older = {name: value for name, value in self.logged.items() if name not in report.logged}
            self.logged = dict([*older.items(), *report.logged.items()][-_MOST_LOGGED:])
        self.control.hear(report, now)
        self._send(worker, self._reply(worker, report))

    def _reply(self, worker: str, report: WorkerReport) -> str:
        plan = self.control.plan
        newer = plan is not None and plan.generation == report.generation and plan.version > report.plan_version
        if worker == self.control.lead and plan is not None and plan.generation == report.generation:
            return to_frame(self._message(report.generation, plan if newer else None, self.control.state_to_keep()))
        key = (report.generation, plan.version if plan and newer else None, self.report_seconds)
        frame = self._replies.get(key)
        if frame is None:
            # Many thousand answers are alike: only the first is put into words.
            self._replies = dict(list(self._replies.items())[-7:])
            frame = self._replies[key] = to_frame(self._message(report.generation, plan if newer else None))
        return frame

    def _message(self, generation: GenerationId, plan: Plan | None, law_state: str | None = None) -> Reply:
        return Reply(
            term=self.state.term,
            generation=generation,
            plan=plan,
            report_seconds=self.report_seconds,
            law_state=law_state,
        )

    def _choose(self, now: float) -> None:
        """Have Auto choose, once enough was measured; what follows forms the generation in which it counts."""
        standing, plan = self.state.standing, self.control.plan
        if not self.state.is_choosing or standing is None or plan is None or self.state.newest is not standing:
            return
        choice = self._probe.look(standing, plan, self.measured, now, self.report_seconds)
        if choice is not None:
            self.state = membership.observe(self.state, events.Chosen(choice), now)

    def _plan(self, now: float) -> None:
        plan = self.control.look(now, self.report_seconds)
        lead = self.control.lead
        if plan is None or lead is None:
            return
        self._happened(Happening(Kind.PLAN, self.control.decisions[-1].why))
        self._send(lead, to_frame(self._message(plan.generation, plan, self.control.state_to_keep())))
