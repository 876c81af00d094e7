"""Where a worker is reached as a server: a listener and one thread for each connection, for the worker's whole life.

Everybody has one, because everybody may become the first of a generation. It says to whoever wants to enter a
generation whether its members meet, or whether the server trains and who comes is just taken in.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from .central import Gradient
from .frames import BadFrameError, Frame, Kind, prepare, receive, send
from .layout import Flat
from .seat import Answer, Seat
from .server import Server

log = logging.getLogger("omnilearn")

_LOOK_SECONDS = 0.25
_ANSWER_SECONDS = 1.0
# A large state is packed for whoever is new.
_WELCOME_SECONDS = 60.0
_BACKLOG = 1024


class Endpoint:
    """Brings messages to the server of the present pass, and its answers back."""

    def __init__(self, address: str) -> None:
        family = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)[0][0]
        self._listener = socket.create_server((address, 0), family=family, backlog=_BACKLOG)
        self._listener.settimeout(_LOOK_SECONDS)
        self.port = int(self._listener.getsockname()[1])
        self.changed = threading.Condition()
        self.closed = False
        self._server: Server | None = None
        self._meeting: int | None = None
        self._connections: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._accept, name="omnilearn-endpoint", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Hang up on everybody."""
        with self.changed:
            self.closed = True
            connections = list(self._connections)
            self.changed.notify_all()
        self._listener.close()
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def serve(self, server: Server | None) -> None:
        """Bring messages to this server from now on."""
        with self.changed:
            self._server, self._meeting = server, None
            self.changed.notify_all()

    def meet(self, generation: int | None) -> None:
        """Tell whoever wants to enter a generation that its members meet; None: they have met."""
        with self.changed:
            self._meeting = generation
            self.changed.notify_all()

    def own(self) -> socket.socket:
        """Return a connection for this worker itself."""
        mine, theirs = socket.socketpair()
        self._begin(theirs)
        return mine

    def _accept(self) -> None:
        while not self.closed:
            try:
                self._take_in()
            except TimeoutError:
                continue
            except (OSError, RuntimeError) as error:
                # Whoever has hung up before being accepted, or a limit that is reached for a moment, ends nothing.
                if not self.closed:
                    log.warning("a connection was not accepted: %s", error)
                    time.sleep(_LOOK_SECONDS)

    def _take_in(self) -> None:
        connection, _ = self._listener.accept()
        try:
            self._begin(connection)
        except BaseException:
            connection.close()
            raise

    def _begin(self, connection: socket.socket) -> None:
        prepare(connection, _LOOK_SECONDS)
        threading.Thread(target=self._talk, args=(connection,), name="omnilearn-seat", daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with self.changed:
            self._connections.add(connection)
        guest = Guest(self)
        try:
            while True:
                frame = receive(connection, guest.place, self._check)
                kind, text, body = guest.answer(frame)
                send(connection, kind, text, body, self._check)
        except BadFrameError as error:
            log.warning("a connection of %s is closed: %s", guest.name, error)
        except (OSError, ValueError, TypeError, KeyError) as error:
            log.debug("a connection of %s has ended: %s", guest.name, error)
        finally:
            guest.leave()
            with self.changed:
                self._connections.discard(connection)
            connection.close()

    def _check(self) -> None:
        if self.closed:
            raise ConnectionError("this worker ends")

    def find(self, generation: int, met: int) -> Server | int | None:
        """Return the server for those of a generation, or in which its members meet; None if neither is known yet.

        ``met`` is the round at which whoever asks has met the others in this generation, -1 if it has not: a meeting
        may be over for it and not yet for this worker.
        """
        with self.changed:
            self.changed.wait_for(lambda: self._find(generation, met) is not None or self.closed, _ANSWER_SECONDS)
            self._check()
            return self._find(generation, met)

    def _find(self, generation: int, met: int) -> Server | int | None:
        server, meeting = self._server, self._meeting or 0
        if server is not None and not server.over:
            return server if server.assignment.generation.number >= generation else None
        if meeting > generation:  # this worker does not come back to a generation that it has left
            return meeting
        if server is not None and (server.meeting or 0) >= generation:
            return server if met < server.round else None  # it says that it has ended
        return meeting if meeting == generation and met < 0 else None


class Guest:
    """Whoever is at the other end of one connection."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._seat: Seat | None = None
        self._server: Server | None = None
        self._wire: Flat | None = None
        self._flat: Flat | None = None

    @property
    def name(self) -> str:
        """Who it is, as far as that is known."""
        return "somebody unknown" if self._seat is None else self._seat.worker

    def place(self, kind: Kind, _text: dict[str, Any], size: int) -> Sequence[memoryview]:
        """Return where the body of a message goes; nobody but a member may send one, and only a gradient."""
        server = self._server
        if kind is not Kind.PUSH or server is None:
            raise BadFrameError(f"a body of {size} bytes that was not expected")
        self._flat = server.central.take()
        if not server.central.layout.converts:
            return self._flat.views
        self._wire = self._wire or server.central.layout.new_gradient(wire=True)
        return self._wire.views

    def leave(self) -> None:
        """Give the seat up."""
        if self._seat is not None and self._server is not None:
            self._server.call(self._server.closed, self._seat)

    def answer(self, frame: Frame) -> Answer:
        """Return the answer to a message."""
        text = frame.text
        if frame.kind in (Kind.HELLO, Kind.STANDBY):
            return self._greet(frame.kind, text)
        if frame.kind not in (Kind.ASK, Kind.PUSH, Kind.LEAVE):
            raise BadFrameError("a message that only a server sends")
        seat = self._seat
        if seat is None:
            return Kind.GONE, {}, []
        if seat.answered:  # it was too late for the last WAIT
            return self._result(seat)
        server = self._server
        if server is None or int(text["pass"]) != server.pass_:
            return Kind.GONE, {}, []
        self._bring(server, seat, frame)
        return self._result(seat)

    def _bring(self, server: Server, seat: Seat, frame: Frame) -> None:
        if server.over:
            seat.answer(*server.farewell())
        elif frame.kind is Kind.PUSH:
            server.call(server.push, seat, frame.text, self._gradient(frame))
        elif frame.kind is Kind.LEAVE:
            server.call(server.leave, seat, frame.text)
        else:
            server.call(server.ask, seat, frame.text)

    def _gradient(self, frame: Frame) -> Gradient:
        """Return the gradient that has been received, made ready in this thread for the server's."""
        flat, self._flat = self._flat, None
        if flat is None or not frame.size:
            raise BadFrameError("a gradient without numbers")
        if self._wire is not None:
            for to, part in zip(flat.parts, self._wire.parts, strict=True):
                to.copy_(part)
        weight, flags = float(frame.text["weight"]), str(frame.text["touched"])
        count = sum(len(bucket.indices) for bucket in self._buckets())
        touched = [flag == "1" for flag in flags] if flags else [True] * count
        if len(touched) != count:
            raise BadFrameError("a gradient of another model")
        return Gradient(flat, weight, touched, weight > 0 and frame.text["finite"] is True)

    def _buckets(self) -> Sequence[Any]:
        return [] if self._server is None else self._server.central.layout.buckets.buckets

    def _result(self, seat: Seat) -> Answer:
        return seat.take(_ANSWER_SECONDS) or (Kind.WAIT, {}, [])

    def _greet(self, kind: Kind, text: dict[str, Any]) -> Answer:
        found = self._endpoint.find(int(text["generation"]), int(text["holds"]) if text.get("entered") else -1)
        if not isinstance(found, Server):
            return Kind.WAIT if found is None else Kind.MEET, {"generation": found}, []
        if found.over:
            return found.farewell()
        seat = Seat(str(text["worker"]), int(text["attempt"]), int(text["holds"]))
        if kind is Kind.STANDBY:
            found.call(found.standby, seat)
            return self._result(seat)
        if text["model"] != found.central.managed.fingerprint() or text["layout"] != found.central.layout.describe():
            return Kind.UNLIKE, {}, []
        self.leave()
        self._seat, self._server, self._wire = seat, found, None
        found.call(found.hello, seat)
        return _welcome(found, seat)


def _welcome(server: Server, seat: Seat) -> Answer:
    """Return what a server says to somebody new; its farewell, if it has ended before it could hear of it."""
    until = time.monotonic() + _WELCOME_SECONDS
    while (answer := seat.take(_LOOK_SECONDS)) is None:
        if server.over:
            return server.farewell()
        if time.monotonic() > until:
            return Kind.WAIT, {}, []
    return answer
