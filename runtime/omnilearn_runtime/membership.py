"""The worker's side of membership: hears assignments, has their groups built beside training, and wakes whoever waits.

Messages come in the link's thread, groups are formed in threads of their own; the training thread only asks and waits.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from omnilearn_core.api.messages import (
    Assignment,
    Broken,
    Built,
    Done,
    Entered,
    FromWorker,
    Join,
    Leave,
    Plan,
    Refused,
    Release,
    Reply,
    ToWorker,
    Welcome,
)
from omnilearn_core.api.strategy import Strategy

from .environment import Environment
from .faults import Faults, Point
from .generations import Generations
from .group import Group, Operation, await_reapers, form
from .link import Link, RefusedError
from .nccl import CudaOperation
from .store import StoreServer
from .waiting import AbandonedError, Ending, ReleasedError

log = logging.getLogger("omnilearn")

# How long a worker that cannot go on waits for the coordinator before it gives up, and how often it says so.
_ORPHAN_SECONDS = 600.0
_SAY_EVERY_SECONDS = 10.0
_REAP_SECONDS = 3.0


class Membership(Generations):
    """What this worker knows of generations; shared between threads under one condition."""

    def __init__(
        self, environment: Environment, describe: Callable[[], Join], faults: Faults, store: StoreServer
    ) -> None:
        super().__init__(environment.worker)
        self._environment, self._describe, self._faults, self._store = environment, describe, faults, store
        self._link = Link(environment, self._opening, self._hear, self._refuse, lambda: self.deadline is not None)
        self._joined = False
        self._broken: Broken | None = None
        self._done: Done | None = None
        self.welcome: Welcome | None = None
        self.current: Group | None = None
        self.entered: Assignment | None = None
        """The last generation whose model this worker has held."""

        self.server_port: int | None = None
        """Where this worker listens as a server, if the strategy has one."""

        self.round = 0
        self.last_generation = 0
        self.plan: Plan | None = None
        self.law_state: str | None = None
        self.released: Release | None = None
        self.report_seconds = 1.0
        self.deadline: float | None = None
        """When a worker that leaves stops waiting to be released."""

    def connect(self, seconds: float) -> Welcome:
        """Connect and return the coordinator's welcome."""
        self._link.start()
        if not self.wait(lambda: self.welcome is not None, seconds) or self.welcome is None:
            raise AbandonedError(f"no coordinator answers at {self._link.place} within {seconds:.0f} s")
        return self.welcome

    def join(self) -> None:
        """Say, once, that this worker is ready to take part."""
        if self._joined:
            return
        self._joined = True
        self._link.send(self._describe())
        self._faults.pass_by(Point.JOINED, self.round)

    def send(self, message: FromWorker) -> None:
        """Send a message if there is a connection."""
        self._done = message if isinstance(message, Done) else self._done
        self._link.send(message)

    def close(self) -> None:
        """Hang up and let the groups go."""
        self._link.close()
        with self.changed:
            groups = [*self._built.values(), *([self.current] if self.current else [])]
            self._built, self.current = {}, None
        for group in groups:
            group.release()
        self._store.close()
        await_reapers(self.wake, _REAP_SECONDS)

    def wait_for(
        self, operations: Sequence[Operation | CudaOperation], group: Group, *, any_newer: bool = False
    ) -> Ending:
        """Wait until the operations have completed, one has failed, or the generation has to be left."""
        ended = self.wait(
            lambda: (
                all(operation.over for operation in operations)
                or any(operation.error for operation in operations)
                or self.is_superseded(group, any_newer=any_newer)
                or self.lets_go()
            ),
            _ORPHAN_SECONDS,
        )
        error = next((operation.error for operation in operations if operation.error), None)
        if error is not None:
            self._say_broken(Broken(generation=group.id, why=error))
            return Ending.FAILED
        if ended and all(operation.over for operation in operations):
            return Ending.COMPLETE
        self.check()
        return Ending.SUPERSEDED

    def next_group(self, after: Group | None) -> Group:
        """Wait for the built group of a generation newer than ``after``; say every now and then that it waits."""
        begun = time.monotonic()
        while not self.wait(lambda: self.lets_go() or self.ready(after) is not None, _SAY_EVERY_SECONDS):
            if self.orphaned:
                raise AbandonedError(f"the coordinator has not been heard of for {_ORPHAN_SECONDS:.0f} s: giving up")
            log.warning("waiting for a generation to take part in, for %.0f s so far", time.monotonic() - begun)
        self.check()
        with self.changed:
            group = self.ready(after)
            if group is None:
                # Superseded in this very moment: wait for its successor.
                return self.next_group(after)
            self._built.pop(group.id)
        return group

    def enter(self, group: Group, round_: int) -> None:
        """Note, and tell, that this worker holds the model of ``group``'s generation."""
        with self.changed:
            self.current, self.entered, self.round = group, group.assignment, round_
            self.plan = group.assignment.plan
        self._link.send(Entered(generation=group.id, round=round_))
        self._faults.pass_by(Point.ENTERED, round_)

    def leave(self) -> None:
        """Leave the present group, with whatever is pending in it."""
        group = self.detach()
        if group is not None:
            group.release()

    def detach(self) -> Group | None:
        """Leave the present group without letting it go: the caller keeps it."""
        with self.changed:
            group, self.current = self.current, None
            return group

    def give_up(self, group: Group, why: str) -> None:
        """Ask for another generation with the same members: this one can reduce nothing any more."""
        with self.changed:
            self._spoiled = group.id
        self._say_broken(Broken(generation=group.id, why=why))

    def _say_broken(self, broken: Broken) -> None:
        self._broken = broken
        self._link.send(broken)

    def check(self) -> None:
        """Raise ReleasedError if this worker may go, or has to."""
        if self.released is not None:
            raise ReleasedError(self.released)
        if self._gives_up():
            raise ReleasedError(Release(why="the time to leave is over"))

    @property
    def global_batch(self) -> int:
        """Samples of one step over all workers."""
        return 0 if self.welcome is None else self.welcome.global_batch

    @property
    def orphaned(self) -> bool:
        """True if the coordinator has been gone for so long that waiting for it makes no sense any more."""
        since = self._link.lost_since
        return since is not None and time.monotonic() - since > _ORPHAN_SECONDS

    def lets_go(self) -> bool:
        """Tell whether this worker may go, or has to."""
        return self.released is not None or self._gives_up()

    def _gives_up(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def _opening(self) -> list[FromWorker]:
        """Begin a connection: nobody may have heard what was said on the last one."""
        if not self._joined:
            return []
        current, entered, broken, done = self.current, self.entered, self._broken, self._done
        again: tuple[FromWorker | None, ...] = (
            broken if current and broken and broken.generation == current.id else None,
            Leave(why="SIGTERM") if self.deadline is not None else None,
            done if entered and done and done.generation == entered.generation else None,
        )
        return [self._describe(), *(each for each in again if each is not None)]

    def _refuse(self, error: RefusedError) -> None:
        with self.changed:
            self.stop = error
            self.changed.notify_all()

    def _hear(self, message: ToWorker) -> None:
        with self.changed:
            match message:
                case Welcome():
                    self.welcome = message
                    self.report_seconds = message.report_seconds
                case Assignment():
                    self._assigned(message)
                case Reply():
                    self._replied(message)
                case Release():
                    self.released = message
                case Refused():
                    log.warning("the coordinator refused a message: %s", message.sentence)
            self.changed.notify_all()

    def _replied(self, reply: Reply) -> None:
        self.report_seconds = reply.report_seconds
        self.law_state = reply.law_state or self.law_state
        if reply.plan is not None and self.current is not None and reply.plan.generation == self.current.id:
            self.plan = reply.plan

    def _assigned(self, assignment: Assignment) -> None:
        if self.newest is not None and assignment.generation.number <= self.newest.generation.number:
            return
        self.newest, self.last_generation = assignment, assignment.generation.number
        self._faults.pass_by(Point.ASSIGNED, self.round)
        old, self._built = list(self._built.values()), {}
        for group in old:
            group.release()
        if self.is_in(assignment):
            threading.Thread(target=self._form, args=(assignment,), name="omnilearn-form", daemon=True).start()

    def _form(self, assignment: Assignment) -> None:
        self._faults.pass_by(Point.FORMING, self.round)
        try:
            strategy = self.welcome.strategy if self.welcome is not None else Strategy()
            in_teams = (strategy if assignment.choice is None else assignment.choice.strategy).has_teams
            port = self.server_port
            group = form(assignment, self._environment.worker, self.wake, in_teams=in_teams, server_port=port)
        except (RuntimeError, ValueError, OSError) as error:
            if self.newest is assignment:
                why = str(error).split("\n", maxsplit=1)[0][:300]
                self._link.send(Broken(generation=assignment.generation, why=why))
            return
        with self.changed:
            wanted = self.newest is assignment
            if wanted:
                self._built[assignment.generation] = group
                self.changed.notify_all()
        if wanted:
            self._link.send(Built(generation=assignment.generation))
            self._faults.pass_by(Point.BUILT, self.round)
        else:
            group.release()
