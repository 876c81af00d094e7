"""Updates per second of the asynchronous server: against its own arithmetic, and against a server over torch's RPC.

Workers are processes that send a gradient as soon as they are answered, so that nothing but the server and the way to
it takes time. Same model, same optimizer, same machine, one after the other; the order changes with every repetition.

    python -m benchmarks.server [--quick] [--json FILE] [--plot FILE]
"""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from rich.table import Table
from torch import nn
from torch.distributed import rpc
from torch.optim import SGD

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

from .printing import console, options_of

HOST = "127.0.0.1"
_ARMS = ("arithmetic", "ours", "ours, bfloat16", "torch RPC")
_GOALS = {"of arithmetic": 0.8, "times torch RPC": 1.5}
_LIMIT_SECONDS = 300.0


def network(megabytes: int) -> nn.Module:
    """Return eight layers with so many megabytes of parameters together."""
    width = int((megabytes * 2**20 / 4 / 8) ** 0.5)
    return nn.Sequential(*(nn.Linear(width, width) for _ in range(8)))


def managed(megabytes: int) -> Managed:
    """Return what both servers train."""
    torch.manual_seed(0)
    model = network(megabytes)
    return manage(model, SGD(model.parameters(), lr=0.001, momentum=0.9), None, None)


class NobodyComes:
    """A roster whose members stay."""

    newest = None

    def has_built(self, assignment: Assignment) -> bool:
        """Nothing is ever built."""
        return False


def arithmetic(megabytes: int, _workers: int, seconds: float) -> float:
    """Return updates per second of one thread that has every gradient at hand, and copies the parameters each time."""
    central = Central(managed(megabytes), GradientType.FULL)
    flat, out = central.take(), central.layout.new_parameters()
    touched = [True] * len(central.layout.buckets.parameters)
    count, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        central.fold("one", Gradient(flat, 1.0, touched))
        central.apply(["one"], 1.0)
        central.empty("one")
        flat = central.take()
        central.layout.read_parameters(out)
        count += 1
    return count / (time.perf_counter() - begun)


def ours(megabytes: int, workers: int, seconds: float, gradients: GradientType = GradientType.FULL) -> float:
    """Return updates per second of our server."""
    names = [f"w{number}" for number in range(workers)]
    id_ = GenerationId(number=1, nonce="benchmark")
    shares = dict.fromkeys(names, 1)
    assignment = Assignment(
        term=1,
        generation=id_,
        change=Change.START,
        members=[MemberAddress(worker=name, attempt=0, device="cpu", address=HOST, port=1) for name in names],
        plan=Plan(generation=id_, version=1, global_batch=workers, shares=shares),
    )
    account = Account(Progress(size=2**40), Standing(), workers)
    server = Server(Central(managed(megabytes), gradients), Policy(), account, assignment, NobodyComes(), Faults(""))
    endpoint = Endpoint(HOST)
    server.start()
    endpoint.serve(server)
    try:
        return _measured(
            lambda number: (_our_worker, (endpoint.port, names[number], megabytes, gradients)),
            workers, seconds, lambda: server.round,
        )  # fmt: skip
    finally:
        endpoint.close()
        server.stop()


def _measured(
    job: Callable[[int], tuple[Any, tuple[Any, ...]]], workers: int, seconds: float, count: Callable[[], int]
) -> float:
    """Start workers, wait until they are warm, and return how fast the count rises."""
    context = multiprocessing.get_context("spawn")
    running = [context.Process(target=target, args=given, daemon=True) for target, given in map(job, range(workers))]
    for process in running:
        process.start()
    try:
        limit = time.monotonic() + _LIMIT_SECONDS
        while count() < 5 * workers:
            if time.monotonic() > limit:
                raise TimeoutError("the workers did not start")
            time.sleep(0.05)
        before, begun = count(), time.perf_counter()
        time.sleep(seconds)
        return (count() - before) / (time.perf_counter() - begun)
    finally:
        for process in running:
            process.kill()
            process.join()


def _our_worker(port: int, name: str, megabytes: int, gradients: GradientType) -> None:
    torch.set_num_threads(1)
    central = Central(managed(megabytes), gradients)
    layout, flat = central.layout, central.layout.new_gradient(wire=True)
    client = Client.to((HOST, port), lambda: False)
    client.use(layout)
    hello = {"generation": 1, "worker": name, "attempt": 0, "holds": 0, "model": central.managed.fingerprint()}
    client.ask(Kind.HELLO, hello | {"layout": layout.describe()})
    said = {"pass": 0, "share": 1, "built": 0}
    answer = client.ask(Kind.ASK, said)
    while answer.kind in (Kind.WORK, Kind.WAIT):
        work = {"lease": answer.text["lease"], "samples": answer.text["samples"], "weight": 1.0, "touched": ""}
        answer = client.ask(Kind.PUSH, said | work, flat.views)


class RpcServer:
    """A parameter server as torch's tutorials have it: a lock, an optimizer, tensors in and out."""

    def __init__(self, megabytes: int) -> None:
        self._managed = managed(megabytes)
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


def _push(gradients: list[torch.Tensor]) -> list[torch.Tensor]:
    return _RPC[-1].push(gradients)


def torch_rpc(megabytes: int, workers: int, seconds: float) -> float:
    """Return updates per second of the same over torch's RPC."""
    with socket.create_server((HOST, 0)) as probe:
        port = int(probe.getsockname()[1])
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    process = context.Process(target=_rpc_server, args=(port, megabytes, workers, seconds, results))
    process.start()
    try:
        process.join(_LIMIT_SECONDS)
        return float(results.get()) if not results.empty() else 0.0
    finally:
        process.kill()


def _options(port: int) -> rpc.TensorPipeRpcBackendOptions:
    """Return options for TCP: shared memory, which it would choose, is not there between pods."""
    return rpc.TensorPipeRpcBackendOptions(
        init_method=f"tcp://{HOST}:{port}", rpc_timeout=_LIMIT_SECONDS, _transports=["uv"], _channels=["basic"]
    )


_init: Any = rpc.init_rpc


def _rpc_server(port: int, megabytes: int, workers: int, seconds: float, results: Any) -> None:
    _RPC.append(RpcServer(megabytes))
    target = _rpc_worker
    started = threading.Thread(
        target=_init,
        kwargs={"name": "server", "rank": 0, "world_size": workers + 1, "rpc_backend_options": _options(port)},
    )
    started.start()
    results.put(
        _measured(
            lambda number: (target, (port, number + 1, workers + 1, megabytes)),
            workers, seconds, lambda: _RPC[-1].updates,
        )
    )  # fmt: skip
    os._exit(0)  # without its workers, RPC would not shut down


def _rpc_worker(port: int, rank: int, world: int, megabytes: int) -> None:
    torch.set_num_threads(1)
    _init(f"w{rank}", rank=rank, world_size=world, rpc_backend_options=_options(port))
    gradients = [torch.zeros_like(parameter) for _, parameter in managed(megabytes).named_parameters()]
    while True:
        rpc.rpc_sync("server", _push, args=(gradients,))


def measure(megabytes: int, workers: int, seconds: float, repetitions: int) -> dict[str, Any]:
    """Return the median of each arm, and all its figures."""
    arms: dict[str, Callable[[], float]] = {
        "arithmetic": lambda: arithmetic(megabytes, workers, seconds),
        "ours": lambda: ours(megabytes, workers, seconds),
        "ours, bfloat16": lambda: ours(megabytes, workers, seconds, GradientType.BFLOAT16),
        "torch RPC": lambda: torch_rpc(megabytes, workers, seconds),
    }
    found: dict[str, list[float]] = {arm: [] for arm in _ARMS}
    for repetition in range(repetitions):
        for arm in _ARMS if repetition % 2 == 0 else reversed(_ARMS):
            found[arm].append(arms[arm]())
    middle = {arm: median(figures) for arm, figures in found.items()}
    return {
        "megabytes": megabytes,
        "workers": workers,
        "updates_per_second": middle,
        "all": found,
        "of arithmetic": middle["ours"] / middle["arithmetic"],
        "times torch RPC": middle["ours"] / middle["torch RPC"] if middle["torch RPC"] else None,
    }


def draw(results: list[dict[str, Any]], path: Path) -> None:
    """Draw a bar for each arm and size."""
    import matplotlib as mpl  # noqa: PLC0415 - only with --plot

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(1, len(results), figsize=(4.5 * len(results), 4), squeeze=False)
    for place, result in zip(axes[0], results, strict=True):
        place.bar(_ARMS, [result["updates_per_second"][arm] for arm in _ARMS])
        place.set(title=f"{result['megabytes']} MB, {result['workers']} workers", ylabel="updates/s")
        place.tick_params(axis="x", rotation=20)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Measure, print, and write what was asked for."""
    options = options_of("server", "updates per second of the asynchronous server").parse_args()
    sizes = [16] if options.quick else [1, 16, 64]
    seconds, repetitions = (3.0, 1) if options.quick else (5.0, 3)
    results = [measure(size, 2, seconds, repetitions) for size in sizes]
    figures = Table(title="updates per second, 2 workers")
    for column in ("model", *_ARMS, *(f"{goal} (goal {number})" for goal, number in _GOALS.items())):
        figures.add_column(column)
    for each in results:
        rates = [f"{each['updates_per_second'][arm]:.1f}" for arm in _ARMS]
        figures.add_row(f"{each['megabytes']} MB", *rates, *(f"{each[goal] or 0.0:.2f}" for goal in _GOALS))
    console().print(figures)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
    if options.plot:
        draw(results, options.plot)


if __name__ == "__main__":
    main()
