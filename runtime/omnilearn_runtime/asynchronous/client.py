"""A worker's connection to the server of its generation: one question at a time, with an end to every wait."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from omnilearn_runtime import codec

from .frames import BadFrameError, Frame, Kind, prepare, receive, send
from .layout import Flat, Layout

_CONNECT_SECONDS = 5.0
_LOOK_SECONDS = 0.05
# The largest state that is believed: a header that says more is damaged.
_LARGEST_STATE = 2**42


class InVainError(ConnectionError):
    """There is no use in waiting for this server any more."""


class Client:
    """Asks one server."""

    def __init__(self, connection: socket.socket, in_vain: Callable[[], bool]) -> None:
        self._socket, self.in_vain = connection, in_vain
        prepare(self._socket, _LOOK_SECONDS)
        self.parameters: Flat | None = None
        self._state: Tensor | None = None

    @classmethod
    def to(cls, place: tuple[str, int], in_vain: Callable[[], bool]) -> Client:
        """Connect to a server; raises OSError."""
        return cls(socket.create_connection(place, _CONNECT_SECONDS), in_vain)

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def use(self, layout: Layout) -> None:
        """Expect parameters that lie like this."""
        self.parameters = layout.new_parameters()

    def ask(self, kind: Kind, text: dict[str, Any], body: Sequence[memoryview] = ()) -> Frame:
        """Send a question and return the answer; raises OSError, and InVainError if waiting makes no sense."""
        send(self._socket, kind, text, body, self._check)
        return receive(self._socket, self._place, self._check)

    def state(self) -> dict[str, Any] | None:
        """Return the state that came with the last answer, if one did."""
        state, self._state = self._state, None
        if state is None:
            return None
        tree: dict[str, Any] = codec.unpack(codec.from_bytes_tensor(state))
        return tree

    def _check(self) -> None:
        if self.in_vain():
            raise InVainError("the generation has to be left")

    def _place(self, kind: Kind, _text: dict[str, Any], size: int) -> Sequence[memoryview]:
        if kind is Kind.WORK and self.parameters is not None:
            return self.parameters.views
        if kind is Kind.STATE and size <= _LARGEST_STATE:
            self._state = torch.empty(size, dtype=torch.uint8)
            return [self._state.numpy().data]
        raise BadFrameError(f"a body of {size} bytes that was not expected")
