"""The permanent connection to the coordinator: two threads that can neither fail nor delay training.

One thread receives and reconnects, with back-off; one sends. Messages that cannot be sent are dropped: after a
reconnection the worker says anew where it is, and everything else repeats itself.
"""

from __future__ import annotations

import json
import logging
import queue
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from urllib.parse import urlparse

from pydantic import ValidationError
from websockets.exceptions import ConnectionClosedOK, InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect
from websockets.sync.connection import Connection
from websockets.typing import Data

from omnilearn_core.api.frames import TO_WORKER, to_frame
from omnilearn_core.api.messages import LARGEST_MESSAGE, FromWorker, Release, ToWorker
from omnilearn_core.api.names import worker_path

from . import secure
from .environment import BadEnvironmentError, Environment

log = logging.getLogger("omnilearn")

_OPEN_SECONDS = 10.0
_FIRST_BACK_OFF, _LONGEST_BACK_OFF = 0.05, 2.0
_LONGEST_QUEUE = 1000
_MOST_REFUSALS = 3
_NO_JOB_SECONDS = 60.0
_DEAD_NODE_MILLISECONDS = 20_000
_LONGEST_WHY = 500

# A coordinator that is frozen keeps its connections. Who hears nothing for so long asks, and leaves after as long
# again: together longer than another operator needs to take over, so that it is there when this worker dials.
_QUIET_SECONDS = 7.0


class RefusedError(RuntimeError):
    """The coordinator does not let this worker in; trying again is in vain."""


class _Patience:
    """Only a refusal that lasts is one: a credential may just be renewed, a coordinator may just begin."""

    def __init__(self) -> None:
        self._refusals = 0
        self._no_job_since: float | None = None

    def ends_with(self, status: int) -> bool:
        """Count an answer; tell whether to give up."""
        self._refusals += status in (401, 403)
        if status == 404:
            self._no_job_since = self._no_job_since or time.monotonic()
        no_job = self._no_job_since is not None and time.monotonic() - self._no_job_since > _NO_JOB_SECONDS
        return no_job or self._refusals >= _MOST_REFUSALS


class Link:
    """A connection that comes back by itself. ``on_open`` gives the messages that begin each connection."""

    def __init__(
        self,
        environment: Environment,
        on_open: Callable[[], list[FromWorker]],
        on_message: Callable[[ToWorker], None],
        on_refused: Callable[[RefusedError], None],
        leaves: Callable[[], bool] = lambda: False,
    ) -> None:
        self._url = f"{environment.coordinator}{worker_path(environment.job, environment.worker)}"
        self._environment = environment
        self._on_open, self._on_message, self._on_refused, self._leaves = on_open, on_message, on_refused, leaves
        self._outbox: queue.SimpleQueue[FromWorker | None] = queue.SimpleQueue()
        self._connection: Connection | None = None
        self._closing = threading.Event()
        self._opening = threading.Lock()
        self._term = 0
        self._quiet = _QUIET_SECONDS
        self._warned = False
        self.lost_since: float | None = time.monotonic()
        self._receiver = threading.Thread(target=self._receive_for_ever, name="omnilearn-link", daemon=True)
        self._sender = threading.Thread(target=self._send_for_ever, name="omnilearn-send", daemon=True)

    @property
    def place(self) -> str:
        """Host and port of the coordinator."""
        return urlparse(self._url).netloc

    def start(self) -> None:
        """Connect in the background."""
        self._receiver.start()
        self._sender.start()

    def send(self, message: FromWorker) -> None:
        """Queue a message; it is lost if the connection is. A signal handler may call this."""
        if self._outbox.qsize() < _LONGEST_QUEUE:
            self._outbox.put(message)

    def close(self, seconds: float = 2.0) -> None:
        """Send what is queued, then hang up."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._outbox.put(None)
        if self._sender.ident is not None:
            self._sender.join(seconds)
        connection = self._connection
        if connection is not None:
            threading.Thread(target=connection.close, daemon=True).start()
        # Also if it is just dialling: nobody should be greeted by a worker that is gone.
        if self._receiver.ident is not None and threading.current_thread() is not self._receiver:
            self._receiver.join(seconds)

    def _send_for_ever(self) -> None:
        while (message := self._outbox.get()) is not None:
            with self._opening:
                connection = self._connection
            if connection is None:
                continue
            try:
                connection.send(to_frame(message))
            except (WebSocketException, OSError) as error:
                log.debug("a %s was not sent: %s", message.type, error)

    def _receive_for_ever(self) -> None:
        back_off, patience = _FIRST_BACK_OFF, _Patience()
        while not self._closing.is_set():
            try:
                with self._dial() as connection:
                    patience, self._warned = _Patience(), False
                    if self._serve(connection):
                        back_off = _FIRST_BACK_OFF
            except InvalidStatus as error:
                if self._gives_up(error, patience):
                    return
            except ssl.SSLCertVerificationError as error:
                self._warn_once(
                    f"the coordinator's certificate is not trusted ({error.verify_message}): trying again, because the "
                    f"authorities in {self._environment.authorities_file} may be renewed meanwhile"
                )
            except BadEnvironmentError as error:
                self._warn_once(f"{error}; trying again, because the file may be renewed meanwhile")
            except (WebSocketException, OSError, TimeoutError) as error:
                log.debug("no connection to the coordinator: %s", error)
            self._connection = None
            self.lost_since = self.lost_since or time.monotonic()
            # Everybody comes back at once after a restart: spread them a little.
            self._closing.wait(back_off * random.uniform(0.5, 1.0))  # noqa: S311 - not for secrets
            back_off = min(2 * back_off, _LONGEST_BACK_OFF)

    def _gives_up(self, error: InvalidStatus, patience: _Patience) -> bool:
        """Take a refusal in; tell whether it is the end of this link."""
        status, sentence = error.response.status_code, _sentence(error)
        if status == 404 and self._leaves() and _said(error) is not None:
            # The job was deleted, and this worker with it: nobody is left who could let it go.
            self._on_message(Release(why=sentence[:_LONGEST_WHY]))
            return True
        ends = patience.ends_with(status)
        if ends:
            self._on_refused(RefusedError(sentence))
        return ends

    def _warn_once(self, sentence: str) -> None:
        """Warn, but not at every attempt until there is a connection again."""
        log.log(logging.DEBUG if self._warned else logging.WARNING, "%s", sentence)
        self._warned = True

    def _dial(self) -> ClientConnection:
        headers = {"Authorization": f"Bearer {self._environment.fresh_token()}"}
        tls, url, secured = self._environment.fresh_tls(), urlparse(self._url), None
        if tls is not None:
            secured = secure.dial(url.hostname or "", url.port or 443, tls, _OPEN_SECONDS)
        # A plain WebSocket, also inside TLS: websockets would bring sockets that two threads must not share.
        return connect(
            url._replace(scheme="ws").geturl(), sock=secured, additional_headers=headers, open_timeout=_OPEN_SECONDS,
            compression=None, max_size=4 * LARGEST_MESSAGE, ping_interval=None, proxy=None,
        )  # fmt: skip

    def _serve(self, connection: Connection) -> bool:
        """Talk until the connection is gone; tell whether it was the right coordinator's."""
        _notice_dead_node(connection)
        # What is sent meanwhile waits for the opening: it may say more than the opening knows.
        with self._opening:
            for opening in self._on_open():
                connection.send(to_frame(opening))
            self._connection = connection
        for frame in self._frames(connection):
            try:
                message = TO_WORKER.validate_json(frame)
            except ValidationError as error:
                log.warning("a message of the coordinator was not understood: %s", error.errors()[0]["msg"])
                continue
            term = getattr(message, "term", self._term)
            if term < self._term:
                log.warning("a coordinator of an earlier term (%d, not %d) is ignored", term, self._term)
                return False
            self._term, self.lost_since = term, None
            self._quiet = max(_QUIET_SECONDS, 2.0 * getattr(message, "report_seconds", 0.0))
            self._on_message(message)
        return True

    def _frames(self, connection: Connection) -> Iterator[Data]:
        """Yield what comes until the connection is closed; TimeoutError if nobody answers any more."""
        answered: threading.Event | None = None
        while True:
            try:
                frame = connection.recv(self._quiet)
            except ConnectionClosedOK:
                return
            except TimeoutError:
                if answered is not None and not answered.is_set():
                    with suppress(OSError):
                        connection.socket.shutdown(socket.SHUT_RDWR)  # nobody is there to say goodbye to
                    log.warning("the coordinator has not answered for %g s: dialling anew", 2 * self._quiet)
                    raise
                answered = connection.ping()
            else:
                answered = None
                yield frame


def _notice_dead_node(connection: Connection) -> None:
    """Have the kernel hang up when nothing is acknowledged any more: a node that dies says no goodbye."""
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        with suppress(OSError):
            connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _DEAD_NODE_MILLISECONDS)


def _sentence(error: InvalidStatus) -> str:
    said = _said(error) or (error.response.body or b"").decode(errors="replace")[:200]
    return f"the coordinator refused this worker ({error.response.status_code}): {said}"


def _said(error: InvalidStatus) -> str | None:
    """Return the coordinator's sentence; None if it was somebody else who answered."""
    try:
        return str(json.loads(error.response.body or b"")["sentence"])
    except (ValueError, KeyError, TypeError):
        return None
