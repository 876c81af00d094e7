"""The coordinator in the launcher's own process, seen through `View`. Imports aiohttp; import it late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from omnilearn_coordinator.credentials import Tokens
from omnilearn_coordinator.membership.actions import Happening
from omnilearn_coordinator.service import Coordinator
from omnilearn_coordinator.settings import JobSettings, settings_of
from omnilearn_coordinator.view import JobView, MemberView, Phase
from omnilearn_core.api.job import OmniLearnJob
from omnilearn_core.api.messages import Done

from .ending import Verdict
from .events import EventLog
from .view import DoneFacts, Member, View

HOST = "127.0.0.1"
_ENTERED = (Phase.RUNNING, Phase.REGROUPING, Phase.COMPLETE)


class CoordinatorSeat:
    """Where the coordinator sits: each that starts has a higher term, the same port and the same credentials."""

    def __init__(self, job: OmniLearnJob, port: int, added: Sequence[str], events: EventLog) -> None:
        self.tokens = Tokens()
        self._settings = settings_with(job, added)
        self._port = port
        self._events = events
        self._term = 0
        self._coordinator: Coordinator | None = None
        self._regroups = 0
        self._last = View()

    @property
    def running(self) -> bool:
        """True while there is a coordinator."""
        return self._coordinator is not None

    async def start(self) -> None:
        """Start a coordinator; OSError if the port is taken."""
        self._term += 1
        self._regroups = self._last.regroups
        coordinator = Coordinator(self._settings, self.tokens, term=self._term, on_happening=self._note)
        coordinator.remember(self._last.choice)
        await coordinator.start(HOST, self._port)
        self._coordinator = coordinator

    async def stop(self) -> None:
        """Stop it abruptly, as a crash would."""
        coordinator, self._coordinator = self._coordinator, None
        if coordinator is not None:
            await coordinator.stop()

    def view(self) -> View:
        """Return how the job stands, or stood when there was a coordinator."""
        if self._coordinator is None:
            return replace(self._last, phase="Without a coordinator")
        seen = view_of(self._coordinator.snapshot())
        self._last = carried_on(replace(seen, regroups=seen.regroups + self._regroups), self._last)
        return self._last

    def _note(self, happening: Happening) -> None:
        self._events.add(str(happening.kind), happening.sentence, happening.worker or "")


def settings_with(job: OmniLearnJob, added: Sequence[str]) -> JobSettings:
    """Return the settings of a job that more workers will join; the first generation does not wait for them."""
    settings = settings_of(job)
    return replace(settings, most=settings.most + len(added))


def carried_on(seen: View, last: View) -> View:
    """Return the view of a new coordinator with the progress that is known until a worker reports to it."""
    if seen.samples or not last.samples:
        return seen
    return replace(
        seen,
        generation=seen.generation or last.generation,
        step=last.step,
        epoch=last.epoch,
        samples=last.samples,
        total_samples=last.total_samples,
        loss=last.loss,
        logged=last.logged,
    )


def view_of(seen: JobView) -> View:
    """Return the coordinator's view as the launcher's."""
    outcome = seen.outcome
    return View(
        phase=f"{seen.phase}: {seen.waiting}" if seen.waiting else str(seen.phase),
        generation=seen.generation if seen.phase in _ENTERED else None,
        members=tuple(_member(member) for member in seen.members) if seen.phase in _ENTERED else (),
        joined=frozenset((*seen.joiners, *(member.worker for member in seen.members))),
        step=seen.step,
        epoch=seen.epoch,
        samples=seen.samples,
        total_samples=seen.total_samples,
        loss=seen.loss,
        logged=seen.logged,
        imbalance=seen.imbalance,
        choice=seen.choice,
        decisions=tuple((decision.time, decision.why) for decision in seen.decisions),
        regroups=seen.regroups,
        verdict=None if outcome is None else Verdict(outcome.complete, outcome.why),
        done={} if outcome is None else {worker: _facts(done) for worker, done in outcome.done.items()},
    )


def _member(member: MemberView) -> Member:
    return Member(
        worker=member.worker,
        device=member.device,
        attempt=member.attempt,
        share=member.share,
        beyond=round(member.tail_samples),
        local_steps=member.local_steps,
        staleness=member.staleness,
        samples_per_second=member.samples_per_second or None,
        # Reported with the loading in it, and without the tail.
        compute_seconds=max(member.compute_seconds + member.tail_seconds - member.load_seconds, 0.0),
        load_seconds=member.load_seconds,
        reduce_seconds=member.reduce_seconds,
        wait_seconds=member.wait_seconds,
        step_seconds=member.step_seconds,
        state=str(member.state),
    )


def _facts(done: Done) -> DoneFacts:
    return DoneFacts(done.steps, done.samples, done.lost, done.doubled, done.skipped, done.parameter_hash)
