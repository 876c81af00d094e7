"""The arms of `benchmarks.server`: each is a server in a process of its own, with workers in processes of theirs.

All have the same model, the same optimizer, the same number of workers and one thread for arithmetic. A worker sends a
gradient that is computed beforehand as soon as it is answered.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import nn
from torch.distributed import rpc
from torch.optim import SGD, Adam

from omnilearn_core.api.messages import Assignment, Change, GenerationId, MemberAddress, Plan
from omnilearn_core.api.strategy import GradientType
from omnilearn_runtime.asynchronous.account import Account, Standing
from omnilearn_runtime.asynchronous.central import Central, Gradient
from omnilearn_runtime.asynchronous.client import Client
from omnilearn_runtime.asynchronous.endpoint import Endpoint
from omnilearn_runtime.asynchronous.frames import Kind
from omnilearn_runtime.asynchronous.policies import Policy
from omnilearn_runtime.asynchronous.server import Server
from omnilearn_runtime.faults import Faults
from omnilearn_runtime.managed import Managed, manage
from omnilearn_runtime.progress import Progress

HOST = "127.0.0.1"
LIMIT_SECONDS = 300.0
_WARM = 10
_LONG = 2**16


@dataclass(frozen=True, slots=True)
class Task:
    """What is measured."""

    megabytes: int
    optimizer: str
    workers: int
    seconds: float

    def managed(self) -> Managed:
        """Return eight layers with so many megabytes of parameters together, and their optimizer."""
        torch.manual_seed(0)
        width = int((self.megabytes * 2**20 / 4 / 8) ** 0.5)
        model = nn.Sequential(*(nn.Linear(width, width) for _ in range(8)))
        if self.optimizer == "Adam":
            return manage(model, Adam(model.parameters(), lr=0.001), None, None)
        return manage(model, SGD(model.parameters(), lr=0.001, momentum=0.9), None, None)


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured."""

    updates_per_second: float
    cpu_milliseconds: float
    """Of the server's process, per update."""

    applying_milliseconds: float | None = None
    """Of the thread that applies gradients, per update, if there is one."""


def measured(arm: str, task: Task) -> Figures:
    """Measure one arm in a process of its own; raises TimeoutError if it does not come to an end."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_measure, args=(arm, task, there))
    process.start()
    there.close()
    try:
        if not here.poll(LIMIT_SECONDS + task.seconds):
            raise TimeoutError(f"{arm} was not measured within {LIMIT_SECONDS:g} s")
        figures: Figures = here.recv()
        return figures
    finally:
        process.kill()
        process.join()


def _measure(arm: str, task: Task, pipe: Connection) -> None:
    torch.set_num_threads(1)
    pipe.send(ARMS[arm](task))
    os._exit(0)  # without its workers, torch's RPC would not shut down


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _until(count: Callable[[], int], wanted: int) -> None:
    """Wait until a count has come so far."""
    limit = time.monotonic() + LIMIT_SECONDS
    while count() < wanted:
        if time.monotonic() > limit:
            raise TimeoutError("the workers did not start")
        time.sleep(0.02)


def _pace(count: Callable[[], int], seconds: float, applying: threading.Thread | None = None) -> Figures:
    """Return how fast a count rises, from now on, and what that costs."""
    clock = None if applying is None or applying.ident is None else time.pthread_getcpuclockid(applying.ident)
    busy = 0.0 if clock is None else time.clock_gettime(clock)
    before, begun, cpu = count(), time.perf_counter(), _cpu()
    time.sleep(seconds)
    done, took = count() - before, time.perf_counter() - begun
    busy = 0.0 if clock is None else time.clock_gettime(clock) - busy
    each = 1000 / max(done, 1)
    return Figures(done / took, (_cpu() - cpu) * each, None if clock is None else busy * each)


def _served(
    task: Task,
    count: Callable[[], int],
    worker: Callable[[int], tuple[Any, tuple[Any, ...]]],
    applying: threading.Thread | None = None,
) -> Figures:
    """Start workers, wait until all are warm, and measure."""
    context = multiprocessing.get_context("spawn")
    jobs = map(worker, range(task.workers))
    running = [context.Process(target=target, args=given, daemon=True) for target, given in jobs]
    for process in running:
        process.start()
    try:
        _until(count, _WARM * task.workers)
        return _pace(count, task.seconds, applying)
    finally:
        for process in running:
            process.kill()
            process.join()


def _fill(gradients: Iterable[torch.Tensor]) -> None:
    """Write numbers as gradients have: with zeros, or with what is in memory, Adam takes several times as long."""
    for gradient in gradients:
        gradient.detach().normal_(std=0.01)


def arithmetic(task: Task) -> Figures:
    """Return the pace of one thread that has every gradient at hand, and copies the parameters each time."""
    central = Central(task.managed(), GradientType.FULL)
    out = central.layout.new_parameters()
    place = central.take()
    _fill(place.parts)
    central.give_back(place)  # it is the one that is taken from now on
    touched = [True] * len(central.layout.buckets.parameters)
    done = 0

    def work() -> None:
        nonlocal done
        while True:
            central.fold("one", Gradient(central.take(), 1.0, touched))
            central.apply(["one"], 1.0)
            central.empty("one")
            central.layout.read_parameters(out)
            done += 1

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    _until(lambda: done, _WARM)
    return _pace(lambda: done, task.seconds, thread)


class NobodyComes:
    """A roster whose members stay."""

    newest = None

    def has_built(self, assignment: Assignment) -> bool:
        """Nothing is ever built."""
        return False


def ours(task: Task, gradients: GradientType = GradientType.FULL, *, light: bool = False) -> Figures:
    """Return the pace of our server; light workers throw the parameters away that they receive."""
    names = [f"w{number}" for number in range(task.workers)]
    id_ = GenerationId(number=1, nonce="benchmark")
    assignment = Assignment(
        term=1,
        generation=id_,
        change=Change.START,
        members=[MemberAddress(worker=name, attempt=0, device="cpu", address=HOST, port=1) for name in names],
        plan=Plan(generation=id_, version=1, global_batch=len(names), shares=dict.fromkeys(names, 1)),
    )
    account = Account(Progress(size=2**40), Standing(), len(names))
    server = Server(Central(task.managed(), gradients), Policy(), account, assignment, NobodyComes(), Faults(""))
    endpoint = Endpoint(HOST)
    server.start()
    endpoint.serve(server)
    kind = Dropping if light else socket.socket
    return _served(
        task,
        lambda: server.round,
        lambda number: (_our_worker, (kind, endpoint.port, names[number], task, gradients)),
        server._thread,
    )


class Dropping(socket.socket):
    """A connection that lets the kernel drop bodies, which costs this machine less than to write them somewhere."""

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """Write what has come to a buffer, unless it is long."""
        return super().recv_into(buffer, nbytes, flags | (socket.MSG_TRUNC if nbytes > _LONG else 0))


def _our_worker(kind: type[socket.socket], port: int, name: str, task: Task, gradients: GradientType) -> None:
    torch.set_num_threads(1)
    central = Central(task.managed(), gradients)
    layout, flat = central.layout, central.layout.new_gradient(wire=True)
    _fill(flat.parts)
    client = Client(kind(fileno=socket.create_connection((HOST, port)).detach()), lambda: False)
    client.use(layout)
    hello = {"generation": 1, "worker": name, "attempt": 0, "holds": 0, "model": central.managed.fingerprint()}
    client.ask(Kind.HELLO, hello | {"layout": layout.describe()})
    said = {"pass": 0, "share": 1, "built": 0}
    pushed = said | {"weight": 1.0, "finite": True, "touched": ""}
    answer = client.ask(Kind.ASK, said)
    while True:
        work = {key: answer.text[key] for key in ("lease", "samples")}
        answer = client.ask(Kind.PUSH, pushed | work, flat.views)
        while answer.kind is Kind.WAIT:
            answer = client.ask(Kind.ASK, said)


class RpcServer:
    """A parameter server as torch's tutorials have it: a lock, an optimizer, tensors in and out."""

    def __init__(self, managed: Managed) -> None:
        self._managed = managed
        self._lock = threading.Lock()
        self.updates = 0

    def push(self, gradients: list[torch.Tensor]) -> list[torch.Tensor]:
        """Apply a gradient and return the parameters."""
        with self._lock:
            parameters = [parameter for _, parameter in self._managed.named_parameters()]
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
            self._managed.update()
            self.updates += 1
            return [parameter.detach().clone() for parameter in parameters]


_RPC: list[RpcServer] = []
_init: Any = rpc.init_rpc


def _push(gradients: list[torch.Tensor]) -> list[torch.Tensor]:
    return _RPC[-1].push(gradients)


def torch_rpc(task: Task) -> Figures:
    """Return the pace of the same over torch's RPC."""
    with socket.create_server((HOST, 0)) as probe:
        port = int(probe.getsockname()[1])
    server = RpcServer(task.managed())
    _RPC.append(server)
    world = task.workers + 1
    told = {"name": "server", "rank": 0, "world_size": world, "rpc_backend_options": _options(port)}
    threading.Thread(target=_init, kwargs=told).start()
    return _served(task, lambda: server.updates, lambda number: (_rpc_worker, (port, number + 1, task)))


def _options(port: int) -> rpc.TensorPipeRpcBackendOptions:
    """Return options for TCP: shared memory, which it would choose, is not there between pods."""
    return rpc.TensorPipeRpcBackendOptions(
        init_method=f"tcp://{HOST}:{port}", rpc_timeout=LIMIT_SECONDS, _transports=["uv"], _channels=["basic"]
    )


def _rpc_worker(port: int, rank: int, task: Task) -> None:
    torch.set_num_threads(1)
    _init(f"w{rank}", rank=rank, world_size=task.workers + 1, rpc_backend_options=_options(port))
    gradients = [torch.empty_like(parameter) for _, parameter in task.managed().named_parameters()]
    _fill(gradients)
    while True:
        rpc.rpc_sync("server", _push, args=(gradients,))


ARMS: dict[str, Callable[[Task], Figures]] = {
    "arithmetic": arithmetic,
    "ours, light workers": lambda task: ours(task, light=True),
    "ours": ours,
    "ours, bfloat16": lambda task: ours(task, GradientType.BFLOAT16),
    "torch RPC": torch_rpc,
}
