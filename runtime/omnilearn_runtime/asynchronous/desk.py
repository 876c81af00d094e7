"""A worker's talk with the server of its generation: finding it, asking it, sending gradients. Used by `engine`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from torch import Tensor

from omnilearn_core.api.messages import Change
from omnilearn_core.api.strategy import GradientType
from omnilearn_runtime.group import Group
from omnilearn_runtime.membership import Membership
from omnilearn_runtime.rollcall import UnlikeError
from omnilearn_runtime.strategies.remote import RemoteLearner
from omnilearn_runtime.work import Open

from .client import Client, InVainError
from .frames import Frame, Kind
from .host import Host
from .layout import Flat, Layout

log = logging.getLogger("omnilearn")

# How long a server may not be reached before another generation is asked for.
_PATIENCE_SECONDS = 5.0
_AGAIN_SECONDS = 0.1


class Desk:
    """At most one connection, to the server of one generation."""

    def __init__(
        self,
        who: tuple[str, int],
        learner: RemoteLearner,
        membership: Membership,
        host: Host,
        gradients: GradientType,
    ) -> None:
        self._who, self._learner, self._membership, self._host = who, learner, membership, host
        self._gradients = gradients
        self._client: Client | None = None
        self._layout: Layout | None = None
        self._flat: Flat | None = None
        self._statistics: Tensor | None = None
        self.asked: tuple[int, int] = (0, 0)
        """Version of the plan and share, as of the last question."""

    @property
    def connected(self) -> bool:
        """True if a server has taken this worker in."""
        return self._client is not None

    def hang_up(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def greet(self, group: Group, holds: int, in_vain: Callable[[], bool]) -> tuple[Frame, dict[str, Any] | None]:
        """Ask rank 0 of a generation whether its members meet, or whether it serves.

        If it serves, this worker stays connected, and has the state if it needs it. A server that cannot be reached is
        tried again for a while; then another generation is asked for. Raises InVainError when this one is over.
        """
        self.hang_up()
        until = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                return self._greet_once(group, holds, in_vain)
            except InVainError:
                raise
            except OSError as error:
                self._host.check()
                if in_vain():
                    raise InVainError("the generation has to be left") from None
                if time.monotonic() > until:
                    self._membership.give_up(group, f"the server cannot be reached: {error}"[:300])
                self._membership.wait(in_vain, _AGAIN_SECONDS)

    def _greet_once(self, group: Group, holds: int, in_vain: Callable[[], bool]) -> tuple[Frame, dict[str, Any] | None]:
        place = group.server
        client = Client(self._host.endpoint.own(), in_vain) if place is None else Client.to(place, in_vain)
        try:
            answer = self._hello(client, group, holds)
            state = client.state()
        except BaseException:
            client.close()
            raise
        if answer.kind is Kind.STATE:
            self._client = client
        else:
            client.close()
        return answer, state

    def _hello(self, client: Client, group: Group, holds: int) -> Frame:
        learner, (worker, attempt) = self._learner, self._who
        learner.refresh()
        layout = self._layout = Layout(learner.managed, learner.buckets, self._gradients)
        self._flat = layout.new_gradient(wire=True)
        client.use(layout)
        text = {
            "generation": group.id.number, "worker": worker, "attempt": attempt, "holds": holds,
            "entered": self._membership.current is group,
            "model": learner.managed.fingerprint(), "layout": layout.describe(),
        }  # fmt: skip
        answer = client.ask(Kind.HELLO, text)
        while answer.kind is Kind.WAIT:
            self._host.check()
            answer = client.ask(Kind.HELLO, text)
        if answer.kind is Kind.UNLIKE:
            raise UnlikeError(
                f"the model or optimizer of {worker} is not that of {group.names[0]}: names, shapes and types must be"
                " the same on all workers; build the model from constants, not from a worker's name or a random number",
                everywhere=False,
            )
        return answer

    def ask(self, kind: Kind, epoch: int, on_wait: Callable[[], None], text: dict[str, Any] | None = None) -> Frame:
        """Ask the server until it has an answer; raises OSError if it cannot be asked any more."""
        client = self._client
        if client is None:
            raise ConnectionError("there is no connection to the server")
        body = [] if text is None or self._flat is None else self._flat.views
        answer = client.ask(kind, self._saying(epoch) | (text or {}), body)
        while answer.kind is Kind.WAIT:
            self._host.check()
            on_wait()
            answer = client.ask(Kind.LEAVE if kind is Kind.LEAVE else Kind.ASK, self._saying(epoch))
        return answer

    def until(self, in_vain: Callable[[], bool]) -> None:
        """Wait for answers no longer than until ``in_vain()``."""
        if self._client is not None:
            self._client.in_vain = in_vain

    def take_parameters(self) -> None:
        """Give the script's model the parameters that came with the last answer."""
        client, layout = self._client, self._layout
        if client is None or client.parameters is None or layout is None:
            raise RuntimeError("there are no parameters to take")
        self._learner.depart()
        layout.write_parameters(client.parameters)
        self._learner.arrived()
        self._statistics = layout.statistics()

    def gradient(self, opened: Open, lease: int) -> dict[str, Any]:
        """Make the gradient of what was computed ready to be sent; return what to say with it."""
        layout, flat, before = self._layout, self._flat, self._statistics
        if layout is None or flat is None or before is None:
            raise RuntimeError("there is no gradient to send")
        layout.read_gradient(opened.weight, before, flat)
        flags = self._learner.buckets.touched().tolist()
        return {
            "lease": lease,
            "samples": opened.held.to_list(),
            "weight": opened.weight,
            # Checked here: workers are many, and the server is one.
            "finite": flat.is_finite(),
            "touched": "" if all(flags) else "".join("1" if flag else "0" for flag in flags),
        }

    def _saying(self, epoch: int) -> dict[str, Any]:
        plan, newest = self._membership.plan, self._membership.newest
        self.asked = (0, 0) if plan is None else (plan.version, plan.shares.get(self._who[0], 0))
        built = newest.generation.number if newest is not None and self._membership.has_built(newest) else 0
        return {"pass": epoch, "share": self.asked[1], "built": built}


def is_left(membership: Membership, group: Group, worker: str) -> bool:
    """Tell whether a generation has to be left at once: the server is another, or this worker is not in the next."""
    newest = membership.newest
    if membership.lets_go() or not membership.is_superseded(group):
        return membership.lets_go()
    if newest is None or newest.generation.number <= group.id.number or newest.change is Change.START:
        return True
    first, before = newest.members[0], group.assignment.members[0]
    given_up = any(each.fresh and each.worker == worker for each in newest.members)
    same = (first.worker, first.attempt) == (before.worker, before.attempt)
    return not same or given_up or not membership.is_in(newest)
