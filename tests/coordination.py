"""Helpers of the coordinator's tests: `Scene` moves its state machine by hand, `Site` serves it, `Talker` calls it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType

from omnilearn_coordinator.credentials import Tokens
from omnilearn_coordinator.membership import State, act, events, observe
from omnilearn_coordinator.membership.actions import Action, Happening, Kind
from omnilearn_coordinator.membership.generation import Generation
from omnilearn_coordinator.service import Coordinator
from omnilearn_coordinator.settings import JobSettings
from omnilearn_core.api.frames import TO_WORKER, to_frame
from omnilearn_core.api.messages import (
    Assignment,
    Built,
    Done,
    Entered,
    FromWorker,
    GenerationId,
    Join,
    Plan,
    ToWorker,
    WorkerReport,
)
from omnilearn_core.api.names import worker_path

SETTINGS = JobSettings(
    name="job", global_batch=64, expected=3, fewest=1, most=8, join_timeout=30.0, silent_after=10.0, entry_timeout=5.0
)


def join_of(generation: Generation | None = None, round_: int | None = None, last: int = 0) -> Join:
    """Return what a worker says when it joins or comes back."""
    return Join(
        device="cpu",
        address="127.0.0.1",
        port=4000,
        last_generation=max(last, generation.number if generation else 0),
        generation=generation.id if generation else None,
        members=list(generation.members) if generation else None,
        round=round_,
    )


class Scene:
    """A membership with a clock, moved on by hand."""

    def __init__(self, settings: JobSettings = SETTINGS, **changes: object) -> None:
        self.now = 100.0
        self.state = State(replace(settings, **changes), "nonce")  # type: ignore[arg-type]
        self.actions: list[Action] = []
        self._connections = 0

    def happens(self, *heard: events.Event) -> None:
        """Observe events without acting on them."""
        for event in heard:
            self.state = observe(self.state, event, self.now)

    def passes(self, seconds: float = 0.0) -> list[Action]:
        """Let time pass in one go, then act; return what was to be done."""
        self.now += seconds
        self.state, actions = act(self.state, self.now)
        self.actions += actions
        return list(actions)

    def connects(self, worker: str, attempt: int = 0) -> int:
        self._connections += 1
        self.happens(events.Connected(worker, self._connections, attempt))
        return self._connections

    def joins(self, *workers: str, attempt: int = 0, join: Join | None = None) -> None:
        for worker in workers:
            self.happens(events.Joined(worker, self.connects(worker, attempt), join or join_of()))

    def connection(self, worker: str) -> int:
        return self.state.workers[worker].connection

    def builds(self, *workers: str) -> None:
        for worker in workers:
            self.happens(events.Built(worker, self.connection(worker), self.newest.id))

    def enters(self, *workers: str, round_: int = 0) -> None:
        for worker in workers or self.newest.names:
            self.happens(events.Entered(worker, self.connection(worker), self.newest.id, round_))

    def closes(self, *workers: str) -> None:
        for worker in workers:
            self.happens(events.Closed(worker, self.connection(worker)))

    def leaves(self, *workers: str) -> None:
        for worker in workers:
            self.happens(events.Leaving(worker, self.connection(worker), "SIGTERM"))

    def reports(self, *workers: str, step: int = 0) -> None:
        for worker in workers:
            self.happens(events.Heard(worker, self.connection(worker), self.newest.id, step))

    def breaks(self, *workers: str) -> None:
        for worker in workers:
            self.happens(events.Broken(worker, self.connection(worker), self.newest.id, "a socket failed"))

    def finishes(self, *workers: str, generation: GenerationId | None = None) -> None:
        for worker in workers:
            done = done_of(generation or self.newest.id)
            self.happens(events.Finished(worker, self.connection(worker), done))

    @property
    def newest(self) -> Generation:
        assert self.state.newest is not None
        return self.state.newest

    def fresh(self) -> set[str]:
        return {member.worker for member in self.newest.members if member.fresh}

    def told(self, kind: Kind) -> list[str]:
        return [a.sentence for a in self.actions if isinstance(a, Happening) and a.kind is kind]


def done_of(generation: GenerationId) -> Done:
    return Done(generation=generation, round=9, steps=9, samples=576, lost=0, doubled=0, parameter_hash="abc")


def after_a_restart(old: Scene, **changes: object) -> Scene:
    """Return a scene with another coordinator of the same job."""
    scene = Scene(old.state.settings, **changes)
    scene.state = State(scene.state.settings, "other", term=2)
    return scene


def running(*workers: str, **changes: object) -> Scene:
    """Return a scene in which these workers train in generation 1."""
    scene = Scene(SETTINGS, **{"expected": len(workers), **changes})
    scene.joins(*workers)
    scene.passes()
    scene.enters()
    scene.passes()
    return scene


@dataclass(eq=False)
class Simulated:
    """A worker process: where it is in its generations, and whether it lives."""

    name: str
    attempt: int
    connection: int | None = None
    back_at: float = 0.0
    frozen_since: float | None = None
    current: Generation | None = None
    held: Generation | None = None
    """The last generation that it has entered: it names this one when it comes back."""

    newest: Generation | None = None
    calling: Generation | None = None
    built: set[GenerationId] = field(default_factory=set)
    round: int = 0
    origin: str = ""
    """The start from which its model comes."""

    reported: float = 0.0
    leaving: bool = False
    broke: set[GenerationId] = field(default_factory=set)

    def is_in(self, generation: Generation) -> bool:
        return generation.member(self.name, self.attempt) is not None

    def is_fresh_in(self, generation: Generation) -> bool:
        member = generation.member(self.name, self.attempt)
        return member is not None and member.fresh


MessageT = TypeVar("MessageT", bound=ToWorker)
_LIMIT_SECONDS = 5.0


class Talker:
    """One connection of a worker."""

    def __init__(self, name: str, socket: ClientWebSocketResponse) -> None:
        self.name, self.socket = name, socket
        self.assignment: Assignment | None = None

    async def say(self, message: FromWorker | str) -> None:
        await self.socket.send_str(message if isinstance(message, str) else to_frame(message))

    async def hear(self, kind: type[MessageT]) -> MessageT:
        """Return the next message of a kind; others are passed over."""
        async with asyncio.timeout(_LIMIT_SECONDS):
            while True:
                message = await self.socket.receive()
                assert message.type is WSMsgType.TEXT, f"the connection ended: {message}"
                heard = TO_WORKER.validate_json(message.data)
                if isinstance(heard, Assignment):
                    self.assignment = heard
                if isinstance(heard, kind):
                    return heard

    async def ends(self) -> int | None:
        """Wait for the end of the connection; return the code."""
        async with asyncio.timeout(_LIMIT_SECONDS):
            while (await self.socket.receive()).type is WSMsgType.TEXT:
                pass
        return self.socket.close_code

    async def join(self, **changes: object) -> None:
        await self.say(Join(device="cpu", address="127.0.0.1", port=4000).model_copy(update=changes))

    async def take_part(self) -> Assignment:
        """Take the next assignment, build and enter it."""
        assignment = await self.hear(Assignment)
        await self.say(Built(generation=assignment.generation))
        await self.say(Entered(generation=assignment.generation, round=0))
        return assignment

    def report(self, plan: Plan, **changes: object) -> WorkerReport:
        said = WorkerReport(
            worker=self.name,
            generation=plan.generation,
            plan_version=plan.version,
            step=1,
            share=plan.shares[self.name],
            steps=1,
            compute_seconds=0.1,
            step_seconds=0.2,
        )
        return said.model_copy(update=changes)


class Site:
    """A coordinator on a port of its own, and a client."""

    def __init__(self, settings: JobSettings, session: ClientSession) -> None:
        self.settings, self.session = settings, session
        self.tokens = Tokens()
        self.port = 0
        self.talkers: list[Talker] = []
        self.coordinator = Coordinator(settings, self.tokens)

    async def start(self, term: int = 1) -> None:
        self.coordinator = Coordinator(self.settings, self.tokens, term=term)
        self.port = await self.coordinator.start("127.0.0.1", self.port)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    async def worker(self, name: str, attempt: int = 0) -> Talker:
        path = worker_path(self.settings.name, name)
        headers = {"Authorization": f"Bearer {self.tokens.issue(name, attempt)}"}
        self.talkers.append(Talker(name, await self.session.ws_connect(self.url(path), headers=headers)))
        return self.talkers[-1]

    async def running(self, *names: str) -> list[Talker]:
        """Return workers that train together."""
        talkers = [await self.worker(name) for name in names]
        for talker in talkers:
            await talker.join()
        for talker in talkers:
            await talker.take_part()
        await self.until(lambda: self.coordinator.snapshot().phase == "Running")
        return talkers

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait for something that no message tells of."""
        async with asyncio.timeout(_LIMIT_SECONDS):
            while not true():  # noqa: ASYNC110 - the coordinator has no event for tests
                await asyncio.sleep(0.01)

    async def metrics(self) -> str:
        async with self.session.get(self.url("/metrics")) as response:
            return await response.text()


@asynccontextmanager
async def site(settings: JobSettings) -> AsyncIterator[Site]:
    async with ClientSession() as session:
        made = Site(settings, session)
        await made.start()
        try:
            yield made
        finally:
            await made.coordinator.stop()
            for talker in made.talkers:
                await talker.socket.close()


def serve(settings: JobSettings, scene: Callable[[Site], Awaitable[None]]) -> None:
    """Run a scene against a coordinator."""

    async def play() -> None:
        async with site(settings) as made:
            await scene(made)

    asyncio.run(play())
