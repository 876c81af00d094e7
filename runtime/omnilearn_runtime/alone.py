"""A job of one: what `Membership` is with a coordinator, without one."""

from __future__ import annotations

from collections.abc import Sequence

from omnilearn_core.api.messages import (
    Assignment,
    Change,
    FromWorker,
    GenerationId,
    MemberAddress,
    Plan,
    Release,
    Welcome,
)

from .generations import Generations
from .group import Group, Operation
from .membership import Membership
from .nccl import CudaOperation
from .waiting import Ending, ReleasedError


class Alone(Membership):
    """One generation with one member, for ever."""

    def __init__(self, worker: str, device: str, global_batch: int, generation: int) -> None:
        Generations.__init__(self, worker)  # without the link of a membership
        self.released = self.deadline = self.law_state = self.current = self.entered = None
        self.round = 0
        self._welcome = Welcome(term=0, global_batch=global_batch, running=False, report_seconds=3600.0)
        self.welcome = self._welcome
        id_ = GenerationId(number=generation, nonce="alone")
        self.plan = Plan(generation=id_, version=1, global_batch=global_batch, shares={worker: global_batch})
        member = MemberAddress(worker=worker, attempt=0, device=device, address="127.0.0.1", port=1)
        self._only = Assignment(term=0, generation=id_, change=Change.START, members=[member], plan=self.plan)

    def connect(self, seconds: float) -> Welcome:
        """Return what a coordinator would say."""
        return self._welcome

    def join(self) -> None:
        """Nobody is to be asked."""

    def send(self, message: FromWorker) -> None:
        """Nobody listens."""

    def close(self) -> None:
        """Nothing is open."""

    def leave(self) -> None:
        """Leave the group."""
        self.current = None

    def detach(self) -> Group | None:
        """Leave the group."""
        group, self.current = self.current, None
        return group

    def next_group(self, after: Group | None) -> Group:
        """Return the group of one."""
        return Group(self._only, 0, None, self.wake)

    def enter(self, group: Group, round_: int) -> None:
        """Note the round."""
        self.current, self.entered, self.round = group, self._only, round_

    def give_up(self, group: Group, why: str) -> None:
        """Nothing is ever on its way to others."""

    @property
    def orphaned(self) -> bool:
        """There never was a coordinator."""
        return False

    def check(self) -> None:
        """Raise ReleasedError if this worker has been told to go."""
        if self.deadline is not None:
            raise ReleasedError(Release(why="told to stop"))

    def is_superseded(self, group: Group, *, any_newer: bool = False) -> bool:
        """Never."""
        return False

    def ready_tag(self, group: Group) -> float:
        """Nothing is planned."""
        return 0.0

    def wait_for(
        self, operations: Sequence[Operation | CudaOperation], group: Group, *, any_newer: bool = False
    ) -> Ending:
        """There is nothing to wait for."""
        return Ending.COMPLETE
