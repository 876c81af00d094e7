"""The process group of one generation: formed in a thread, used with operations that can be abandoned.

Raw gloo groups, never the default group of torch.distributed: a raw group can be left behind with operations pending
and released by a thread of its own, while training goes on in the next generation.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import torch
from torch._C._distributed_c10d import (
    AllreduceOptions,
    BroadcastOptions,
    ProcessGroupGloo,
    ReduceOp,
)

from omnilearn_core.api.messages import Assignment, GenerationId, MemberAddress

from .nccl import CudaOperation, form_nccl
from .store import StoreClient

# A peer that is only slow must not look dead: the coordinator decides about silence, long before this.
_OPERATION_SECONDS = 300.0
_FORMATION_SECONDS = 60.0
# Buckets in flight at the same time
_THREADS = 2
_SERVER = "server"


_REAPERS: list[tuple[Callable[[], None], threading.Thread]] = []
"""The threads that let groups go, each with whom the group woke: sessions of one process do not wait for each other."""

_REAPING = threading.Lock()


def await_reapers(wake: Callable[[], None], seconds: float) -> None:
    """Wait until one's groups that were let go are gone: Python's exit in the middle of that aborts the process."""
    limit = time.monotonic() + seconds
    with _REAPING:
        reapers = tuple(reaper for owner, reaper in _REAPERS if owner == wake)
    for reaper in reapers:
        reaper.join(max(0.0, limit - time.monotonic()))


def tag(generation: GenerationId) -> float:
    """Return a number that stands for a generation in the control element: exact in float64, never 0."""
    digest = hashlib.blake2b(str(generation).encode(), digest_size=6).digest()
    return float(int.from_bytes(digest, "big") + 1)


class Operation:
    """One collective operation. It is over when it has completed or failed; it never blocks."""

    def __init__(self, work: Any, buffers: Sequence[torch.Tensor], wake: Callable[[], None]) -> None:
        # The buffers belong to the operation until it is over, even when nobody waits for it any more.
        self._work: Any = work
        self.buffers = buffers
        self.error: str | None = None
        self.over = False
        self._wake = wake
        work.get_future().add_done_callback(self._finish)

    def _finish(self, future: Any) -> None:
        try:
            future.value()
        except RuntimeError as error:
            self.error = str(error).split("\n", maxsplit=1)[0][:300]
        # Even a finished operation would keep the group's sockets open.
        self._work = None
        self.over = True
        self._wake()


class Group:
    """The members of a generation, as seen by this one: rank, size, and the operations among them."""

    def __init__(
        self, assignment: Assignment, rank: int, gloo: Any, wake: Callable[[], None], nccl: Any = None
    ) -> None:
        self.assignment, self.rank, self.size = assignment, rank, len(assignment.members)
        self.id = assignment.generation
        self.names = [member.worker for member in assignment.members]
        self.server: tuple[str, int] | None = None
        """Where rank 0 listens as a server, if the strategy has one."""

        self._gloo, self._nccl, self._wake = gloo, nccl, wake
        self._begun: list[Operation | CudaOperation] = []
        self.team: Group | None = None
        """Those of the same group of the manifest, if the strategy has teams; this very group if all of them are."""

        self.teams = len({team_of(name) for name in self.names})
        """Of how many groups of the manifest there are members."""

    @property
    def is_fresh(self) -> bool:
        """True if this worker came into the generation as a joiner."""
        return self.assignment.members[self.rank].fresh

    @property
    def on_device(self) -> bool:
        """True if buckets are reduced on the devices that they are on."""
        return self._nccl is not None

    def all_reduce(self, tensor: torch.Tensor) -> Operation | CudaOperation:
        """Begin to replace ``tensor`` by the sum over all members."""
        options = AllreduceOptions()
        options.reduceOp = ReduceOp(ReduceOp.SUM)
        if tensor.is_cuda:
            operation = CudaOperation(self._nccl.allreduce([tensor], options), [tensor], self._wake)
            self._begun.append(operation)
            return operation
        return self._begin(self._gloo.allreduce([tensor], options), [tensor])

    def all_gather(self, tensor: torch.Tensor) -> tuple[Operation, list[torch.Tensor]]:
        """Begin to collect every member's tensor, in the order of their ranks."""
        gathered = [torch.empty_like(tensor) for _ in range(self.size)]
        work = self._gloo.allgather([gathered], [tensor])
        return self._begin(work, [tensor, *gathered]), gathered

    def broadcast(self, tensor: torch.Tensor, source: int) -> Operation:
        """Begin to replace ``tensor`` by that of rank ``source``."""
        options = BroadcastOptions()
        options.rootRank, options.rootTensor = source, 0
        return self._begin(self._gloo.broadcast([tensor], options), [tensor])

    def _begin(self, work: Any, buffers: Sequence[torch.Tensor]) -> Operation:
        operation = Operation(work, buffers, self._wake)
        self._begun = [each for each in self._begun if not each.over]
        self._begun.append(operation)
        return operation

    def release(self) -> None:
        """Let go of the group, in a thread: with an operation pending, that lasts until its peers or its time are up.

        Whoever drops the last reference waits for the group's threads, so no name may keep it here.
        """
        team, self.team = self.team, None
        if team is not None and team is not self:
            team.release()
        box = [self._gloo, self._nccl, self._begun]
        self._gloo, self._nccl, self._begun = None, None, []
        if box[0] is not None:
            name = f"omnilearn-reap-{self.id.number}-{self.rank}"
            reaper = threading.Thread(target=_reap, args=(box,), name=name, daemon=True)
            with _REAPING:
                # Only one that has started can be waited for.
                reaper.start()
                _REAPERS[:] = [*(each for each in _REAPERS if each[1].is_alive()), (self._wake, reaper)]


def _reap(box: list[Any]) -> None:
    """Drop the last references to a group and its operations."""
    box[0].abort()
    if box[1] is not None:
        box[1].abort()
    box.clear()


def team_of(worker: str) -> str:
    """Return the group of the manifest that a worker belongs to: its name without its index."""
    return worker.rpartition("-")[0]


class _Meeting(NamedTuple):
    """Where members meet, under which names, and the port of the server that the first of them may be."""

    host: MemberAddress
    prefix: str = ""
    server_port: int | None = None


def form(
    assignment: Assignment,
    worker: str,
    wake: Callable[[], None],
    *,
    in_teams: bool = False,
    server_port: int | None = None,
) -> Group:
    """Form the group of a generation; blocks until all members are there. Raises RuntimeError if they are not.

    With ``in_teams``, the members of one group of the manifest get operations of their own beside it. With a
    ``server_port``, everybody learns where rank 0 listens.
    """
    host = assignment.members[0]
    group = _form(assignment, _Meeting(host, server_port=server_port), worker, wake)
    if not in_teams:
        return group
    mates = [member for member in assignment.members if team_of(member.worker) == team_of(worker)]
    try:
        if len(mates) == group.size:
            group.team = group
        else:
            team = assignment.model_copy(update={"members": mates})
            group.team = _form(team, _Meeting(host, f"{team_of(worker)}/"), worker, wake)
    except BaseException:
        group.release()
        raise
    return group


def _form(assignment: Assignment, meeting: _Meeting, worker: str, wake: Callable[[], None]) -> Group:
    """Form a group of these members."""
    host, prefix, server_port = meeting
    rank = [member.worker for member in assignment.members].index(worker)
    if len(assignment.members) == 1:
        return Group(assignment, rank, None, wake)
    first, me = assignment.members[0], assignment.members[rank]
    limit = timedelta(seconds=_FORMATION_SECONDS)
    store = StoreClient(host.address, host.port, str(assignment.generation), limit, prefix)
    try:
        options: Any = ProcessGroupGloo._Options()  # type: ignore[attr-defined]
        options._devices = [ProcessGroupGloo.create_device(hostname=me.address)]
        options._threads = _THREADS
        options._timeout = limit
        gloo = ProcessGroupGloo(store, rank, len(assignment.members), options)
        gloo.set_timeout(timedelta(seconds=_OPERATION_SECONDS))
        nccl = None
        if all(member.device == "gpu" for member in assignment.members):
            nccl = form_nccl(store, first.address, rank, len(assignment.members), _OPERATION_SECONDS)
        group = Group(assignment, rank, gloo, wake, nccl)
        if server_port is not None and rank == 0:
            store.set(_SERVER, str(server_port))
        elif server_port is not None:
            group.server = (host.address, int(store.get(_SERVER)))
    finally:
        store.close()
    return group
