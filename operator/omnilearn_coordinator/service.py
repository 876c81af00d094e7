"""The coordinator as an HTTP service: one WebSocket per worker, metrics and health. Parses, delegates, sends.

Used by `omnilearn run` inside the launcher and by the operator.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import replace

from aiohttp import web

from omnilearn_core.api.messages import LARGEST_MESSAGE
from omnilearn_core.api.strategy import Choice

from . import limits
from .connection import Connection
from .credentials import Credentials, Identity
from .crowd import Crowd
from .driver import Driver
from .listening import Listener
from .membership import Outcome, refusal
from .membership.actions import Happening
from .metrics import Metrics
from .reception import Reception
from .refusals import Refusal, Refusals, RefusedRequest, refuse
from .settings import JobSettings
from .view import JobView, TimedDecision, members_of, phase_of

# Events that come together are decided upon together: three workers that die at once make one generation.
_TOGETHER_SECONDS = 0.002

_PAUSE_AFTER_A_BUG_SECONDS = 1.0
_BEARER = "Bearer "


class Coordinator:
    """One job's coordinator."""

    def __init__(
        self,
        settings: JobSettings,
        credentials: Credentials,
        *,
        term: int = 1,
        clock: Callable[[], float] = time.monotonic,
        may_speak: Callable[[], bool] = lambda: True,
        on_happening: Callable[[Happening], None] | None = None,
    ) -> None:
        self._settings, self._credentials, self._clock, self._may_speak = settings, credentials, clock, may_speak
        tell, nonce = on_happening or (lambda _: None), secrets.token_hex(4)
        self._driver = Driver(settings, self, tell, term=term, nonce=nonce)
        self._metrics = Metrics(self.snapshot)
        self._numbers = itertools.count(1)
        self._open: dict[int, Connection] = {}
        self._reception: Reception | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = False
        self._refusals = Refusals(settings.name)
        self._listener = Listener(
            self._driver, self._refusals, self._look_soon, clock, limits.of_a_job(settings.most, clock())
        )
        self._dials: dict[str, limits.Allowance] = {}
        self._connected: Counter[str] = Counter()

    @property
    def outcome(self) -> Outcome | None:
        """How the job ended, if it has."""
        return self._driver.state.outcome

    def app(self) -> web.Application:
        """Return the application; it drives the job while it runs."""
        app = web.Application()
        app.router.add_get("/v1/jobs/{job}/workers/{worker}", self.serve_worker)
        app.router.add_get("/metrics", self._serve_metrics)
        app.router.add_get("/healthz", self._serve_health)
        app.cleanup_ctx.append(self._running)
        return app

    def among(self, crowd: Crowd) -> None:
        """Have workers report less often the more of them, of all jobs, there are; call this before `begin`."""
        self._driver.crowd = crowd

    def remember(self, choice: Choice | None) -> None:
        """Go on with what Auto has chosen under an earlier coordinator; call this before `begin`."""
        self._driver.state = replace(self._driver.state, choice=choice)

    def begin(self) -> None:
        """Begin to drive the job; whoever serves many jobs calls this, and `serve_worker` for each connection."""
        self._look()

    async def start(self, host: str, port: int) -> int:
        """Serve; return the port, which the system chooses if it is 0."""
        reception = Reception(self.app(), self._refusals.count)
        port = await reception.start(host, port)
        self._reception = reception
        return port

    async def stop(self) -> None:
        """Stop at once, as a crash would: sockets close without a goodbye."""
        self._stopping = True
        if self._timer is not None:
            self._timer.cancel()
        for connection in list(self._open.values()):
            connection.drop()
        if self._reception is not None:
            await self._reception.close()

    def hear_everything(self) -> None:
        """Hold nobody back, however much they say: for measuring how much can be heard."""
        self._listener.holds_back = False

    def drop_others(self, welcome: Collection[Identity]) -> None:
        """Hang up on everybody who is no longer welcome."""
        for connection in list(self._open.values()):
            if connection.identity not in welcome:
                connection.drop()

    def retire(self, leaving: Collection[Identity], why: str) -> None:
        """Have workers leave at the end of a step, as if they had asked for it, whether they know of it or not."""
        for each in leaving:
            if self._driver.retire(each.worker, each.attempt, why, self._clock()):
                self._look_soon()

    def doubt(self, doubtful: Collection[Identity], why: str) -> None:
        """Lose those of whom nothing was heard for a few reports: somebody else does not hear of them either."""
        if doubtful:
            self._driver.doubt([(each.worker, each.attempt) for each in doubtful], why, self._clock())
            self._look_soon()

    @property
    def reports(self) -> int:
        """How many reports were taken in."""
        return self._listener.reports

    @property
    def members(self) -> int:
        """How many members train now."""
        standing = self._driver.state.standing
        return 0 if standing is None else len(standing.entered)

    def snapshot(self) -> JobView:
        """Return the job as it is now."""
        driver, state, leading = self._driver, self._driver.state, self._driver.leading
        shown = state.standing or state.newest
        plan = driver.control.plan
        shares = plan.shares if plan is not None and shown is not None and plan.generation == shown.id else {}
        elapsed = time.time() - self._clock()
        view = JobView(
            job=self._settings.name,
            phase=phase_of(state),
            generation=shown.number if shown else None,
            plan=plan.version if plan is not None else None,
            members=members_of(state, shares, driver.measured),
            joiners=tuple(worker.name for worker in state.joiners() if not state.is_member(worker)),
            waiting=state.waiting,
            regroups=state.regroups,
            plan_changes=driver.control.changes,
            bad_requests=self._refusals.counts,
            decisions=tuple(TimedDecision(elapsed + at, why) for at, why in driver.control.decisions),
            outcome=state.outcome,
            choice=state.choice,
        )
        return view if leading is None else view.with_progress(leading, driver.loss, driver.logged)

    # What the driver sends

    def send(self, connection: int, frame: str) -> None:
        """Send a frame, unless somebody else may be the coordinator by now."""
        found = self._open.get(connection)
        if found is not None and self._may_speak():
            found.send(frame)

    def disconnect(self, connection: int, last: str | None = None) -> None:
        """Close a connection, after a last frame if there is one."""
        found = self._open.get(connection)
        if found is None:
            return
        if last is None:
            found.drop()
            return
        found.send(last)
        found.finish()

    # When the driver looks

    async def _running(self, _: web.Application) -> AsyncIterator[None]:
        self.begin()
        yield
        self._stopping = True
        if self._timer is not None:
            self._timer.cancel()

    def _look_soon(self) -> None:
        self._look_in(_TOGETHER_SECONDS)

    def _look_in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if self._stopping or (self._timer is not None and self._timer.when() <= loop.time() + seconds):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_later(seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        pause = _PAUSE_AFTER_A_BUG_SECONDS
        try:
            pause = self._driver.look(self._clock())
        finally:
            self._look_in(pause)  # whatever happens, the job must not stand still

    # What is served

    async def _serve_health(self, _: web.Request) -> web.Response:
        return web.json_response({"phase": phase_of(self._driver.state)})

    async def _serve_metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self._metrics.text(), headers={"Content-Type": "text/plain; version=0.0.4"})

    async def serve_worker(self, request: web.Request) -> web.WebSocketResponse:
        """Talk to a worker until its connection ends."""
        try:
            identity = await self._identified(request)
            self._check_room(identity.worker)
        except RefusedRequest as error:
            self._refusals.count(error.kind, error.sentence)
            raise
        socket = web.WebSocketResponse(
            heartbeat=limits.heartbeat(self._settings.silent_after),
            max_msg_size=LARGEST_MESSAGE,
            compress=False,
            autoping=False,
        )
        try:
            await socket.prepare(request)
        except ConnectionError:
            return socket  # it has hung up while it was asked who it is
        # Taken now: a connection that is gone has no transport any more.
        connection = Connection(
            next(self._numbers), identity, socket, request.transport, limits.of_a_worker(self._clock())
        )
        self._open[connection.number] = connection
        self._connected[identity.worker] += 1
        self._driver.crowd.come(self._clock())
        writer = asyncio.create_task(connection.write())
        try:
            self._driver.connected(identity.worker, connection.number, identity.attempt, self._clock())
            self._look_soon()
            await self._listener.listen(connection)
        finally:
            self._forget(connection)
            writer.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await writer
        return socket

    async def _identified(self, request: web.Request) -> Identity:
        job, worker = request.match_info["job"], request.match_info["worker"]
        header = request.headers.get("Authorization", "")
        token = header.removeprefix(_BEARER)
        known = header.startswith(_BEARER) and token
        identity = await self._credentials.identify(token, request.remote or "") if known else None
        if identity is None:
            sentence = "the token is missing or not valid: send the worker's own as a bearer token"
            raise refuse(401, sentence, Refusal.TOKEN)
        if job != self._settings.name:
            raise refuse(404, f"there is no job {job[:63]} here: use {self._settings.name}", Refusal.JOB)
        if identity.worker != worker:
            sentence = f"the token is that of {identity.worker}: a worker can speak only for itself"
            raise refuse(403, sentence, Refusal.WORKER)
        refused = refusal(self._driver.state, identity.worker, identity.attempt)
        if refused is not None:
            raise refuse(403, refused, Refusal.ATTEMPT)
        return identity

    def _check_room(self, worker: str) -> None:
        """Refuse a connection that the worker, or the job as a whole, has no need of."""
        now = self._clock()
        dials = self._dials.setdefault(worker, limits.of_dials(now))
        if self._connected[worker] >= limits.MOST_CONNECTIONS_OF_A_WORKER or not dials.take(now):
            sentence = f"{worker} connects too often: keep one connection, and wait a second before the next"
            raise refuse(429, sentence, Refusal.CONNECTIONS)
        if len(self._open) >= limits.connections_of_a_job(self._settings.most):
            sentence = f"{self._settings.name} has too many connections: close those that nobody needs"
            raise refuse(429, sentence, Refusal.CONNECTIONS)

    def _forget(self, connection: Connection) -> None:
        self._open.pop(connection.number, None)
        self._connected[connection.identity.worker] -= 1
        self._driver.crowd.go()
        if not self._stopping:
            self._driver.closed(connection.identity.worker, connection.number, self._clock())
            self._look_soon()
