"""The server's place in a worker: where it listens, and the server of the present pass if this worker is the first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from omnilearn_core.api.strategy import Asynchronous
from omnilearn_runtime import codec
from omnilearn_runtime.faults import Faults
from omnilearn_runtime.group import Group
from omnilearn_runtime.managed import Managed
from omnilearn_runtime.membership import Membership
from omnilearn_runtime.progress import Progress

from .account import Account, Standing
from .central import Central
from .endpoint import Endpoint
from .policies import policy_of
from .server import Server


class Host:
    """Begins and ends servers; used by the training thread."""

    def __init__(self, address: str, membership: Membership, faults: Faults, options: Asynchronous) -> None:
        self.endpoint = Endpoint(address)
        membership.server_port = self.endpoint.port
        self._membership, self._faults, self._options = membership, faults, options
        self._server: Server | None = None
        self.on_server: Callable[[Server], object] = lambda _: None
        """Told of every server that begins here; for tests."""

    def close(self) -> None:
        """Hang up on everybody."""
        self.endpoint.close()
        if self._server is not None:
            self._server.stop()

    def begin(
        self, managed: Managed, progress: Progress, standing: Standing, at: tuple[int, int], group: Group
    ) -> None:
        """Serve a pass, ``at`` (epoch, end), if nobody does."""
        if self._server is not None:
            return
        epoch, end = at
        standing = standing if progress.epoch == epoch and progress.size > 0 else Standing()
        progress = replace(progress, epoch=epoch, offset=standing.committed.size, size=end)
        self._server = Server(
            Central(managed, self._options.gradients),
            policy_of(self._options),
            Account(progress, standing, self._membership.global_batch),
            group.assignment,
            self._membership,
            self._faults,
        )
        self.on_server(self._server)
        self._server.start()
        self.endpoint.serve(self._server)

    def check(self) -> None:
        """Raise what has ended the server, if it was an error."""
        if self._server is not None and self._server.error is not None:
            raise self._server.error

    def end(self) -> dict[str, Any] | None:
        """Serve no more; return the state, if there was a server here."""
        server, self._server = self._server, None
        if server is None:
            return None
        server.stop()
        return server.result()

    def state(self) -> dict[str, Any] | None:
        """Return the state as it is now, if there is a server here that serves."""
        server = self._server
        state = None if server is None or server.over else server.state()
        if state is None:
            return None
        tree: dict[str, Any] = codec.unpack(codec.from_bytes_tensor(state))
        return tree
