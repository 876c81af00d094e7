"""Play the operator's part for one job: start its workers and start them again, let faults happen, see how it ends.

One loop that looks at everything every moment. `run` builds what it needs.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Protocol

from .crew import Crew, Tokens
from .display import Display
from .ending import Bounds, End, Standing, State, end_of
from .events import EventLog
from .faults import Do, Fault, due
from .places import Place
from .view import View
from .workers import Slot

_TICK = 0.1
_KILLED_SECONDS = 5.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Seat(Protocol):
    """The coordinator of the job, wherever it sits; it can be stopped and started anew."""

    @property
    def tokens(self) -> Tokens:
        """Who gives credentials to workers."""

    @property
    def running(self) -> bool:
        """True while there is a coordinator."""

    async def start(self) -> None:
        """Start a coordinator at the address of the job."""

    async def stop(self) -> None:
        """Stop it abruptly, as a crash would."""

    def view(self) -> View:
        """Return how the job stands."""


@dataclass(frozen=True, slots=True)
class Orders:
    """What the launcher is to do."""

    slots: tuple[Slot, ...]
    faults: tuple[Fault, ...]
    bounds: Bounds
    grace_seconds: float
    another: Callable[[str, Iterable[str]], Slot]
    """Return one more worker of a group, given the names that are taken."""


class Interrupts:
    """Ctrl-C, and the other ways to ask a program to end; the second time it is meant."""

    def __init__(self) -> None:
        self.count = 0
        self._event = asyncio.Event()

    def interrupt(self) -> None:
        """Note one."""
        self.count += 1
        self._event.set()

    async def within(self, seconds: float) -> bool:
        """Wait for the next one; tell whether it came."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._event.wait(), seconds)
        came = self._event.is_set()
        self._event.clear()
        return came

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Take the signals, where that is possible: only the main thread may."""
        loop, taken = asyncio.get_running_loop(), []
        for number in _SIGNALS:
            with suppress(ValueError, RuntimeError, NotImplementedError):
                loop.add_signal_handler(number, self.interrupt)
                taken.append(number)
        try:
            yield
        finally:
            for number in taken:
                loop.remove_signal_handler(number)


class Launcher:
    """A run of a job."""

    def __init__(self, orders: Orders, seat: Seat, crew: Crew, events: EventLog, display: Display) -> None:
        self._orders = orders
        self._seat = seat
        self._crew = crew
        self._events = events
        self._display = display
        self._faults = list(orders.faults)
        self._clock = asyncio.get_running_loop().time
        self._began = self._clock()
        self._entered: float | None = None
        self._verdict_at: float | None = None
        self.interrupts = Interrupts()
        self.view = View()
        """How the job stood when it last had members."""

    async def run(self) -> End:
        """Run until the job ends, however it does; nothing of it is left when this returns."""
        with self.interrupts.caught():
            for slot in self._orders.slots:
                self._crew.engage(slot, self._began)
            try:
                end = await self._train()
            finally:
                await self._stop()
            return end

    async def _train(self) -> End:
        while True:
            now = self._clock()
            self._crew.start_due(now)
            self._hear(now)
            await self._play(now)
            self._display.look(self.view, self._crew.staff(now), now)
            if end := end_of(self._standing(now), self._orders.bounds):
                return end
            if await self.interrupts.within(_TICK):
                return End(State.INTERRUPTED, "the run was interrupted")

    def _hear(self, now: float) -> None:
        """Take in what the workers wrote, who has ended, and how the job stands."""
        for worker, line in self._crew.output():
            self._display.output(worker, line)
        # The coordinator knows that a job is complete before it releases a worker: look after the exits were seen.
        exits = list(self._crew.reap(now))
        self._look(now)
        for exit_, lines in exits:
            for line in lines:
                self._display.output(exit_.worker, line)
            # Without a coordinator nobody can say whether a worker that ended well was done.
            over = self.view.verdict is not None or (not self._seat.running and exit_.code == 0)
            self._crew.settle(exit_, now, over=over)

    def _look(self, now: float) -> None:
        view = self._seat.view()
        # After the end everybody goes: those who took part are those who were there before.
        kept = self.view.members if view.verdict is not None else ()
        self.view = replace(view, members=kept or view.members or self.view.members)
        self._crew.hold_to_limits(view.joined)
        if self._entered is None and view.generation is not None:
            self._entered = now
        if self._verdict_at is None and view.verdict is not None:
            self._verdict_at = now
            self._crew.dismiss()

    async def _play(self, now: float) -> None:
        """Let the faults happen whose moment has come."""
        if self._entered is None or self._verdict_at is not None:
            return
        ready, self._faults = due(self._faults, now - self._entered, self.view.step)
        for fault in ready:
            self._events.add("Fault", str(fault), fault.target)
            if problem := await self._strike(fault, now):
                self._events.add("Fault", f"{fault} had no effect: {problem}", fault.target)

    async def _strike(self, fault: Fault, now: float) -> str | None:
        match fault.do:
            case Do.ADD:
                self._crew.engage(self._orders.another(fault.target, self._crew.workers), now)
            case Do.STOP_COORDINATOR if self._seat.running:
                await self._seat.stop()
            case Do.START_COORDINATOR if not self._seat.running:
                try:
                    await self._seat.start()
                except OSError as error:
                    return f"it cannot listen: {error.strerror}"
            case Do.STOP_COORDINATOR | Do.START_COORDINATOR:
                return "it is so already"
            case _:
                return self._crew.strike(fault, now)
        return None

    def _standing(self, now: float) -> Standing:
        running = self._crew.running
        if self._verdict_at is not None:
            running = [place for place in running if self._took_part(place)]
        return Standing(
            seconds=now - self._began,
            started=self._entered is not None,
            running=len(running),
            coming=len(self._crew.coming),
            failures=self._crew.failures,
            last_failure=self._crew.last_failure,
            late_failure=self._crew.late_failure,
            verdict=self.view.verdict,
            verdict_age=0.0 if self._verdict_at is None else now - self._verdict_at,
            words=self._crew.words(),
        )

    def _took_part(self, place: Place) -> bool:
        """Tell whether a worker that still runs belongs to the end of the job; a frozen or late one does not."""
        members = self.view.done or {member.worker for member in self.view.members}
        return not place.frozen and place.slot.worker in members

    async def _stop(self) -> None:
        """End what still runs: ask, wait, kill; at once if it was interrupted twice, or has not begun."""
        self._crew.dismiss()
        self._crew.kill(place for place in self._crew.running if place.starting)
        self._crew.ask(self._crew.running)
        if self.interrupts.count < 2:
            await self._gone(self._orders.grace_seconds)
        self._crew.kill(self._crew.running)
        await self._gone(_KILLED_SECONDS, hurry=False)

    async def _gone(self, seconds: float, *, hurry: bool = True) -> None:
        """Wait until no process is left, but not longer than this; with `hurry`, nor beyond an interrupt."""
        until = self._clock() + seconds
        while self._crew.running and self._clock() < until:
            for exit_, lines in list(self._crew.reap(self._clock())):
                for line in lines:
                    self._display.output(exit_.worker, line)
            if self._crew.running and await self.interrupts.within(_TICK / 2) and hurry:
                return
