"""The one loop of the operator: jobs that something has happened to are looked at, soon and one pass at a time."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from omnilearn_coordinator.membership.actions import Happening, Kind
from omnilearn_core.api.job import OmniLearnJob
from omnilearn_core.endings import back_off

from . import notes
from .agenda import Agenda
from .api import ApiError
from .book import Book, opened
from .coordination import Coordinators
from .doubts import Doubts
from .executor import Executor
from .lists import Lists
from .logs import on_behalf_of
from .news import News
from .pace import Pace, pace_for
from .reconcile import decide
from .recorder import Recorder
from .registry import Key, Registry
from .status import Seen

logger = logging.getLogger(__name__)

# Events that come together are looked at together.
_TOGETHER_SECONDS = 0.05
# A job that gets pods was asked for so lately.
_SURE_SECONDS = 5.0
# An API server that fails at every third call is asked several times a minute, and not by many jobs at once.
_FIRST_RETRY, _LONGEST_RETRY = 0.5, 10.0
_LONGEST_PASS = 120.0
# Most of a look is waiting for answers, and the more so the later the event loop is.
_MOST_AT_ONCE = 32
# Garbage is collected rarely: what jobs leave behind in circles would stay until there is a quarter more of everything.
_CLEAN_SECONDS = 60.0


class Loop:
    """Looks at jobs when they are due. Nothing that happens to one job keeps it from looking at the others."""

    def __init__(
        self,
        lists: Lists,
        registry: Registry,
        coordinators: Coordinators,
        executor: Executor,
        recorder: Recorder,
        authorities: Callable[[], str],
    ) -> None:
        self._registry, self._coordinators, self._executor = registry, coordinators, executor
        self._recorder, self._authorities = recorder, authorities
        self._agenda = Agenda()
        self._books: dict[Key, tuple[str, Book]] = {}
        self._passes: dict[Key, asyncio.Task[None]] = {}
        self._failures: dict[Key, int] = {}
        self._news, self._doubts = News(), Doubts()
        self.lists = lists
        self._asked: dict[Key, float] = {}
        self._cleaned = time.monotonic()
        self._wake = asyncio.Event()
        self._sleeps_until = 0.0
        self._places = asyncio.Semaphore(_MOST_AT_ONCE)
        self.looked = time.monotonic()
        """When the loop last went round."""

        self.looks, self.retries = 0, 0

    @property
    def waiting(self) -> int:
        """How many jobs are due and wait for their turn."""
        return max(0, len(self._passes) - _MOST_AT_ONCE)

    @property
    def _pace(self) -> Pace:
        return pace_for(len(self._registry.jobs), self._registry.pod_count)

    def touch(self, key: Key, seconds: float = _TOGETHER_SECONDS) -> None:
        """Have a job looked at soon."""
        due = time.monotonic() + seconds
        if self._agenda.want(key, due):
            self._wake_for(due)

    def _wake_for(self, due: float) -> None:
        if due < self._sleeps_until:
            self._wake.set()

    def tell(self, key: Key, happening: Happening) -> None:
        """Take in what a coordinator tells."""
        self._doubts.hear(key, happening, time.monotonic())
        note = notes.of_happening(happening)
        if note is not None:
            self._news.add(key, note)
        # Shares that have moved can wait for the next look, which is never far.
        self.touch(key, self._pace.look if happening.kind is Kind.PLAN else _TOGETHER_SECONDS)

    async def begin(self) -> None:
        """List everything, before anybody asks for it."""
        await self.lists.see_everything(self.touch)

    async def run(self) -> None:
        """Look at jobs for ever; when this is cancelled, nothing of it goes on."""
        listing = asyncio.create_task(self.lists.run(self.touch), name="list everything")
        try:
            await self._go_round()
        finally:
            for each in (listing, *self._passes.values()):
                each.cancel()

    async def _go_round(self) -> None:
        while True:
            self.looked = now = time.monotonic()
            for key in self._agenda.begin(now):
                self._passes[key] = asyncio.create_task(self._guarded(key), name=f"look at {key}")
            pause = max(min(1.0, self._agenda.next_due() - now), 0.01)
            self._sleeps_until = now + pause
            self._wake.clear()
            try:
                await asyncio.wait_for(self._wake.wait(), pause)
            except TimeoutError:
                continue

    async def _guarded(self, key: Key) -> None:
        """Look at a job; whatever goes wrong, look again after a while."""
        on_behalf_of(key)
        try:
            async with self._places, asyncio.timeout(_LONGEST_PASS):
                again = await self._look(key)
            self._failures.pop(key, None)
        except (ApiError, TimeoutError) as error:
            again = self._after_trouble(key, str(error) or "it took too long")
        except Exception:
            logger.exception("%s could not be looked at", key)
            again = self._after_trouble(key, "an error of the operator's own")
        finally:
            self._passes.pop(key, None)
            self._agenda.end(key)
            self._wake_for(self._agenda.next_due())
        if again is not None:
            self.touch(key, again)

    def _after_trouble(self, key: Key, why: str) -> float:
        count = self._failures[key] = self._failures.get(key, 0) + 1
        self.retries += 1
        pause = back_off(count, _FIRST_RETRY, max(_LONGEST_RETRY, self._pace.look))
        logger.warning("%s: %s; the next try is in %.1f s (%d so far)", key, why, pause, count)
        return pause

    def _doubt(self, key: Key) -> None:
        """Have everything listed if a worker is lost while its pod seems well: a watch may be deaf without knowing."""
        if self._doubts.due(key, self._registry.pods(key), time.monotonic()):
            self._doubts.forget(key)
            self.lists.soon()

    async def _is_sure(self, key: Key) -> bool:
        """Tell whether a job is still there as it is known: its pods would be collected, and created, for a minute."""
        if time.monotonic() - self._asked.get(key, -_SURE_SECONDS) < _SURE_SECONDS:
            return True
        before = self._registry.jobs.get(key)
        await self.lists.ask(key)
        self._asked[key] = time.monotonic()
        after = self._registry.jobs.get(key)
        return before is not None and after is not None and _version(before) == _version(after)

    async def _look(self, key: Key) -> float | None:
        """Decide about a job and do it; return in how many seconds to look again, None if it is gone."""
        self._doubt(key)
        job = self._registry.jobs.get(key)
        if job is None or not job.spec.ours:
            await self._forget(key)
            return None
        self.looks += 1
        now, pace = datetime.now(UTC), self._pace
        uid, book = self._books.get(key, ("", None))
        if book is None or uid != job.metadata.uid:
            book = opened(job, now)
        pods = self._registry.pods(key)
        decision = decide(Seen(job, pods, self._coordinators.view(key), now, pace), book, self._authorities())
        if decision.create and not await self._is_sure(key):
            return 0.0
        self._books[key] = job.metadata.uid or "", decision.book
        self._registry.forget(key, [pod.uid for pod in pods if pod.gone])  # their ends are in the book now
        for note in self._news.take(key, time.monotonic(), pace.plans):
            self._recorder.record(job, note)
        if decision.coordinate:
            await self._coordinators.ensure(key, job)
            self._coordinators.check_identities(key)
        else:
            await self._coordinators.stop(key)
        done, errors = await self._executor.perform(key, job, decision, now)
        self._books[key] = job.metadata.uid or "", done
        if errors:
            raise errors[0]
        if decision.check:
            return 0.0
        return min(decision.again, pace.look) if decision.coordinate else decision.again

    async def _forget(self, key: Key) -> None:
        await self._coordinators.stop(key)
        self._news.forget(key)
        self._doubts.forget(key)
        self._registry.forget(key)
        self._recorder.forget(self._books[key][0] if key in self._books else "")
        for known in (self._books, self._failures, self._asked):
            known.pop(key, None)
        if time.monotonic() - self._cleaned > _CLEAN_SECONDS:
            gc.collect()
            self._cleaned = time.monotonic()


def _version(job: OmniLearnJob) -> tuple[str | None, int | None]:
    return job.metadata.uid, job.metadata.generation
