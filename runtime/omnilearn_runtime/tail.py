"""The tail of a round: samples that no plan gives to anybody, taken piece by piece by whoever is early.

No plan can foresee jitter. One member, the same for all, hands the tail out: `Handouts`, in its store. The others ask
through `Claims`; a member that does not answer is waited for no longer than its generation lasts. docs/protocol.md.
"""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Callable
from typing import NamedTuple

from .ledger import Interval, Intervals
from .wire import frame, receive

# Of what is left, weighted by the share: pieces shrink, so that nobody is late with the last one.
_PART = 0.5
_MOST_GENERATIONS = 8
_CONNECT_SECONDS = 5.0
_LOOK_SECONDS = 0.05
# As long as an operation may take: the coordinator decides about silence, long before this.
_LIMIT_SECONDS = 300.0


class Request(NamedTuple):
    """What a worker wants: a piece of this round's tail, in proportion to its share of all shares."""

    round: int
    attempt: int
    """How often the script has left a round half done in this generation, on all members alike."""

    begin: int
    end: int
    share: int
    shares: int
    least: int
    """The smallest piece that is worth the effort."""


class Handouts:
    """What one member has handed out in each of the last generations. Pure."""

    def __init__(self) -> None:
        self._newest: dict[str, tuple[tuple[int, int], int]] = {}

    def take(self, generation: str, request: Request) -> Interval:
        """Return the next piece, empty if nothing is left; raises ValueError for a round that others are past.

        What would be left over is smaller than a piece: it goes with the last one.
        """
        asked = (request.round, request.attempt)
        newest, at = self._newest.get(generation, ((-1, 0), 0))
        if asked < newest:
            raise ValueError("the others have gone on to another round")
        if asked > newest:
            newest, at = asked, request.begin
            self._newest.pop(generation, None)
        left = max(0, request.end - at)
        wanted = max(request.least, int(_PART * left * request.share / max(1, request.shares)))
        piece = (at, at + (left if left - wanted < request.least else wanted))
        self._newest[generation] = (newest, piece[1])
        for old in list(self._newest)[:-_MOST_GENERATIONS]:
            del self._newest[old]
        return piece


class UnansweredError(RuntimeError):
    """The member that hands out the tail cannot be reached."""


class Claims:
    """The asking side: one request at a time, to one member."""

    def __init__(self, in_vain: Callable[[], bool]) -> None:
        self._in_vain = in_vain
        self._place: tuple[str, str, int] | None = None
        self._socket: socket.socket | None = None
        self._asked = False

    def ask(self, generation: str, host: tuple[str, int], request: Request) -> None:
        """Send a request, unless one has been sent that `answer` has not answered yet."""
        try:
            connection = self._connected(generation, host)
            if not self._asked:
                connection.sendall(frame([generation, "", request]))
                self._asked = True
        except OSError as error:
            self.close()
            raise UnansweredError(f"the member that hands out the tail cannot be reached: {error}") from None

    def answer(self) -> Intervals | None:
        """Return the piece that was asked for, or None if waiting for it is in vain."""
        limit, data = time.monotonic() + _LIMIT_SECONDS, bytearray()
        while self._socket is not None and not self._in_vain():
            try:
                low, high = json.loads(receive(self._socket, data))
            except TimeoutError:
                if time.monotonic() < limit:
                    continue
                self.close()
                raise UnansweredError(f"no answer about the tail within {_LIMIT_SECONDS:g} s") from None
            except (OSError, ValueError) as error:
                self.close()
                raise UnansweredError(f"no answer about the tail: {error}") from None
            self._asked = False
            return Intervals.of((low, high)) if low < high else Intervals.of()
        return None

    def poll(self) -> Intervals | None:
        """Return the piece that was asked for if the answer is there already."""
        if self._socket is None or not self._asked:
            return None
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        return self.answer() if poller.poll(0) else None

    def close(self) -> None:
        """Hang up: an answer that is on its way is for nobody."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._place, self._asked = None, None, False

    def _connected(self, generation: str, host: tuple[str, int]) -> socket.socket:
        if self._socket is None or self._place != (generation, *host):
            self.close()
            self._socket = socket.create_connection(host, _CONNECT_SECONDS)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.settimeout(_LOOK_SECONDS)
            self._place = (generation, *host)
        return self._socket
