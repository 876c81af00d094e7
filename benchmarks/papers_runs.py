"""Runs of `benchmarks.papers`: a coordinator, paced workers for some seconds, and what their traces and models tell."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from omnilearn_coordinator.credentials import Tokens
from omnilearn_coordinator.service import Coordinator
from omnilearn_coordinator.settings import GroupSettings, JobSettings
from omnilearn_core.api.names import worker_name
from omnilearn_core.api.strategy import Strategy

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from chaos.network import Network, network
from chaos.processes import Running, Zygote

from .papers_subjects import subject_of
from .papers_worker import Order, fill

_JOB = "papers"
_HOST = "127.0.0.1"
_START_SECONDS = 30.0
_LAST_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Plan:
    """One run."""

    speeds: tuple[float, ...]
    """Of every worker, in samples per second."""

    strategy: Strategy = field(default_factory=Strategy)
    law: str = "Affine"
    batch: int = 256
    rate: float = 0.1
    seed: int = 0
    seconds: float = 6.0
    subject: str = "pictures"
    samples: int = 60_000
    skew: float = 0.0
    told: bool = True
    """The manifest says how fast each worker is, so that the law need not find out first."""

    groups: str = ""
    """The group of every worker, a letter each; empty: one group."""

    megabits: float | None = None
    """What the network lets through to a worker, in a second."""

    far: bool = False
    """Only groups are far from each other: inside them, the network is fast."""

    visits: tuple[tuple[float, float], ...] = ()
    """When the second worker is killed, and when it comes back, in seconds."""

    @property
    def names(self) -> list[str]:
        """The workers; everybody has a name of a group of its own, because capacity is told by group."""
        return [worker_name(_JOB, f"{letter}{place}", 0) for place, letter in enumerate(self.letters)]

    @property
    def letters(self) -> str:
        """The group of every worker."""
        return self.groups or "w" * len(self.speeds)

    def settings(self) -> JobSettings:
        """Return the job as the coordinator sees it."""
        groups = {
            name.rpartition("-")[0]: GroupSettings(letter, capacity=speed if self.told else None)
            for name, letter, speed in zip(self.names, self.letters, self.speeds, strict=True)
        }
        count = len(self.speeds)
        return JobSettings(
            name=_JOB, global_batch=self.batch, law=self.law, fewest=1, most=count, expected=count, tail_percent=0,
            silent_after=3.0, strategy=self.strategy, groups=groups,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run."""

    curve: list[tuple[float, float]]
    """How good the model was, and when, in seconds since the start."""

    progress: list[tuple[float, float]]
    """How many samples were in updates of the model, and when."""

    updates: int
    seconds: float
    step_seconds: float
    """Between two updates, once the shares have settled."""

    delays: dict[str, tuple[float, int]]
    """Mean and largest delay of each worker's gradients, if there is a server."""

    discarded: float
    """The part of the gradients that was thrown away."""

    @property
    def samples(self) -> float:
        """Samples in updates of the model, at the end."""
        return self.progress[-1][1] if self.progress else 0.0


class Bench:
    """Starts runs, one after the other."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="omnilearn-papers-"))
        self._zygote = Zygote(self._folder, "benchmarks.papers_worker")
        self._count = 0

    async def __aenter__(self) -> Bench:
        await self._zygote.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._zygote.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def run(self, plan: Plan) -> Outcome:
        """Train for as long as the plan says; return what came of it."""
        self._count += 1
        folder = self._zygote.folder = self._folder / str(self._count)
        folder.mkdir()
        with ExitStack() as stack:
            links = None if plan.megabits is None else stack.enter_context(network(plan.names))
            if links is not None:
                _slow(links, plan)
            crew = Crew(plan, self._zygote, links)
            begun = await crew.train()
        outcome = read(plan, folder, begun)
        shutil.rmtree(folder)
        return outcome


def _slow(links: Network, plan: Plan) -> None:
    """Let the plan's rate through, between all workers or between groups."""
    keys = [letter if plan.far else str(place) for place, letter in enumerate(plan.letters)]
    groups = [[name for name, key in zip(plan.names, keys, strict=True) if key == each] for each in sorted(set(keys))]
    links.part_slowly(groups, f"{plan.megabits}mbit")


class Crew:
    """The coordinator and the workers of one run."""

    def __init__(self, plan: Plan, zygote: Zygote, links: Network | None) -> None:
        self._plan, self._zygote, self._links = plan, zygote, links
        self._tokens = Tokens()
        self._coordinator = Coordinator(plan.settings(), self._tokens)
        self._host = _HOST if links is None else links.coordinator
        self._port = 0
        self._workers: dict[str, Running] = {}

    async def train(self) -> float:
        """Train; return when it began, which is when all were there."""
        plan = self._plan
        self._port = await self._coordinator.start(self._host, 0)
        try:
            for name in plan.names:
                await self._spawn(name, 0)
            await self._until_all_train()
            begun = time.time()
            for attempt, (goes, comes) in enumerate(plan.visits, 1):
                await _sleep_until(begun + goes)
                self._workers[plan.names[1]].signal(signal.SIGKILL)
                await _sleep_until(begun + comes)
                await self._spawn(plan.names[1], attempt)
            await _sleep_until(begun + plan.seconds)
            return begun
        finally:
            await self._end()

    async def _spawn(self, name: str, attempt: int) -> None:
        plan, place = self._plan, self._plan.names.index(name)
        token = self._zygote.folder / f"{name}-{attempt}.token"
        token.write_text(self._tokens.issue(name, attempt), encoding="ascii")
        order = Order(
            plan.subject, plan.seed, plan.rate, plan.speeds[place], place, len(plan.speeds), plan.samples, plan.skew
        )
        environment = {
            "OMNILEARN_JOB": _JOB,
            "OMNILEARN_WORKER": name,
            "OMNILEARN_ATTEMPT": str(attempt),
            "OMNILEARN_DEVICE": "cpu",
            "OMNILEARN_COORDINATOR": f"ws://{self._host}:{self._port}",
            "OMNILEARN_TOKEN_FILE": str(token),
            "OMNILEARN_ADDRESS": _HOST if self._links is None else self._links.address(name),
            "OMNILEARN_TRACE_HASHES": "",
            **order.to_environment(),
        }
        where = None if self._links is None else self._links.namespace(name)
        self._workers[name] = await self._zygote.fork(name, attempt, environment, where)

    async def _until_all_train(self) -> None:
        """Wait until everybody has begun with its first samples; its trace would come a whole round later."""
        limit = time.monotonic() + _START_SECONDS
        while not any((self._zygote.folder / "snapshots").glob("*.jsonl")):
            ended = [worker for worker in self._workers.values() if not worker.alive]
            if ended or time.monotonic() > limit:
                logs = "\n".join(worker.log.read_text()[-2000:] for worker in ended or self._workers.values())
                raise RuntimeError(f"the workers do not train: {self._plan}\n{logs}")
            await asyncio.sleep(0.01)

    async def _end(self) -> None:
        """Kill everybody, which ends every strategy at the same time, and wait until they are gone."""
        for worker in self._workers.values():
            worker.signal(signal.SIGKILL)
        async with asyncio.timeout(_LAST_SECONDS):
            for worker in self._workers.values():
                await self._gone(worker)
        await self._coordinator.stop()

    async def _gone(self, worker: Running) -> None:
        while worker.alive:  # noqa: ASYNC110 - the zygote tells it
            await asyncio.sleep(0.01)


async def _sleep_until(moment: float) -> None:
    await asyncio.sleep(max(0.0, moment - time.time()))


def read(plan: Plan, folder: Path, begun: float) -> Outcome:
    """Return what the traces and the models of a run tell."""
    end = begun + plan.seconds
    lines = [
        line | {"worker": file.stem.rpartition("-")[0]}
        for file in (folder / "jsonl").glob("*.jsonl")
        for line in whole_lines(file)
        if line["kind"] in ("step", "gradient") and line["time"] <= end
    ]
    gradients = [line for line in lines if line["kind"] == "gradient"]
    rounds = {line["round"]: line for line in lines}.values()  # a step is in everybody's trace
    counted = [line for line in gradients if line["samples"]] if gradients else list(rounds)
    delays = {
        name: (fmean(own), max(own))
        for name in plan.names
        if (own := [line["delay"] for line in gradients if line["worker"] == name and line["time"] > begun + 1.0])
    }
    return Outcome(
        curve=curve_of(plan, folder, begun),
        progress=_summed(sorted((line["time"] - begun, line["samples"]) for line in counted)),
        updates=max((line["step"] for line in lines), default=0),
        seconds=plan.seconds,
        step_seconds=pace_of([line["time"] for line in rounds if line["time"] > begun + plan.seconds / 2]),
        delays=delays,
        discarded=1.0 - len(counted) / len(gradients) if gradients else 0.0,
    )


def _summed(commits: Sequence[tuple[float, int]]) -> list[tuple[float, float]]:
    total = accumulate(count for _, count in commits)
    return [(moment, float(sum_)) for (moment, _), sum_ in zip(commits, total, strict=True)]


def whole_lines(file: Path) -> Iterable[dict[str, Any]]:
    """Return the lines of a file whose writer was killed: the last one may be short."""
    text = file.read_text(encoding="utf-8")
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def pace_of(times: Sequence[float]) -> float:
    """Return the mean time between two of these moments; not a number if there are fewer."""
    gaps = [after - before for before, after in pairwise(sorted(times))]
    return fmean(gaps) if gaps else float("nan")


def curve_of(plan: Plan, folder: Path, begun: float) -> list[tuple[float, float]]:
    """Return how good the models were that the leads have written down."""
    subject = subject_of(plan.subject)
    model, points = subject.network(), []
    size = sum(parameter.numel() for parameter in model.parameters())
    for file in (folder / "snapshots").glob("*.jsonl"):
        flats = torch.frombuffer(bytearray(file.with_suffix(".bin").read_bytes()), dtype=torch.float32)
        for place, line in enumerate(whole_lines(file)):
            if line["time"] <= begun + plan.seconds:
                fill(model, flats[place * size : (place + 1) * size])
                with torch.no_grad():
                    points.append((max(0.0, line["time"] - begun), subject.score(model)))
    return sorted(points)
