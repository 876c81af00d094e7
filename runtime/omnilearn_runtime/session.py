"""The session: what a training script sees. docs/training.md explains it; the engine is in `rounds`."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Generator, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor

from omnilearn_core.api.strategy import Strategy

from . import computing, cpu
from .alone import Alone
from .division import Place
from .ending import Exits, is_out_of_memory
from .engines import feeder_of, rounds_of
from .environment import Environment, read
from .evaluating import Evaluator
from .faults import Faults
from .feeding import Feeder
from .joining import describe, find_device, own_address
from .ledger import Intervals, epoch_order
from .loading import Loader
from .managed import UnsuitableError, manage
from .membership import Membership
from .passes import Passes
from .reporting import Reporter, Trace
from .rounds import Rounds
from .saving import Saving
from .store import StoreServer
from .strategies import learner_of
from .work import Committed

log = logging.getLogger("omnilearn")


class Session:
    """One worker's part in a job; alone, without a coordinator, the script is a job of one."""

    def __init__(self, *, seed: int = 0, global_batch: int = 64, environment: Environment | None = None) -> None:
        self._environment = environment or read()
        self._seed = seed
        self._threads = cpu.Threads()
        self._threads.follow(cpu.cpu_quota())
        self.device = find_device(self._environment)
        self._faults = Faults(self._environment.faults)
        self._saving = Saving(self._environment, self._faults)
        self._membership = self._connect(global_batch)
        self._reporter = Reporter(self._environment.worker, self._membership, lambda: cpu.cpu_quota(environ={}))
        told, welcome = self._environment.memory_bound, self._membership.welcome
        known = (told, None if welcome is None or told == 0 else welcome.memory_bound)
        self._reporter.memory_bound = min((each for each in known if each), default=None)
        self._trace = Trace(self._environment.trace_file, hashes=self._environment.trace_hashes)
        self._exits = Exits(self._environment, self._membership, self._saving, self._faults)
        self._rounds_or_none: Rounds | None = None
        self._feeder: Feeder | None = None
        self._fed: Feeder | None = None
        self._passes = Passes()
        # The same parameters on every worker, whatever was drawn before.
        torch.manual_seed(seed)
        random.seed(seed)

    def _connect(self, global_batch: int) -> Membership:
        environment = self._environment
        if environment.alone:
            number = self._saving.last_generation + 1
            return Alone(environment.worker, self.device.type, global_batch, number)
        store = StoreServer(own_address(environment))
        join = describe(environment, self._saving, store, lambda: self._membership)
        membership = Membership(environment, join, self._faults, store)
        membership.connect(environment.connect_seconds)
        return membership

    def __enter__(self) -> Self:
        self._exits.listen()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is None and self._rounds_or_none is not None:
                self._exits.finish(self._rounds)
            elif error is not None:
                self._remember_memory(error)
                self._exits.fail(error)
        finally:
            self._reporter.stop()
            self._saving.close()
            if self._rounds_or_none is not None:
                self._rounds_or_none.close()
            self._membership.close()
            self._trace.close()
            self._exits.close()

    def _remember_memory(self, error: BaseException) -> None:
        """Tell how much did not fit, if that is what ended the script: its next attempt begins with half of it."""
        piece, entered = None if self._fed is None else self._fed.piece, self._membership.entered
        if is_out_of_memory(error) and piece is not None and entered is not None:
            self._reporter.memory_bound = max(1, piece.size // 2)
            self._membership.send(self._reporter.report(entered.generation))

    # What the script knows of itself

    @property
    def is_lead(self) -> bool:
        """True on one worker at a time: for what only one should do."""
        group = self._membership.current
        return group is None or group.rank == 0

    @property
    def step_number(self) -> int:
        """Updates of the model so far."""
        return self._rounds.seen.step

    @property
    def global_batch(self) -> int:
        """Samples of one step over all workers."""
        return self._membership.global_batch

    def log(self, **values: float) -> None:
        """Show values in the status, the metrics and the plots; the lead's count."""
        self._reporter.logged.update({name: float(value) for name, value in values.items()})

    # Setting up

    def manage(
        self,
        model: torch.nn.Module | Mapping[str, torch.nn.Module],
        optimizer: torch.optim.Optimizer | Mapping[str, torch.optim.Optimizer],
        *,
        scheduler: Any = None,
        **rest: Any,
    ) -> None:
        """Say what is trained: joiners receive it and checkpoints hold it.

        ``scheduler`` is stepped once per update, or once per epoch with ``scheduler_per_epoch=True``. Further:
        ``scaler`` (torch.amp.GradScaler), ``clip_norm``, ``before_update`` (called when the mean gradients are
        there) and ``extra`` (dictionaries, or objects with state_dict, by name).
        """
        if self._rounds_or_none is not None:
            raise UnsuitableError("session.manage was called twice: give it all models and optimizers at once, by name")
        extra = rest.pop("extra", None)
        welcome = self._membership.welcome
        strategy = Strategy() if welcome is None else welcome.strategy
        learner = learner_of(strategy, manage(model, optimizer, scheduler, extra, **rest))
        rounds = rounds_of(self._environment, learner, self._membership, self._faults, self._committed)
        rounds.resume = self._saving.newer_than
        resumed = None if self._is_late else self._saving.newer_than(0)
        if resumed is not None:
            rounds.load(resumed)
        self._rounds_or_none = rounds
        self._reporter.in_pieces = not learner.managed.looks_at_batches
        self._exits.save_on_exit(rounds)
        if not self._environment.alone:
            self._reporter.start()

    @property
    def _is_late(self) -> bool:
        welcome = self._membership.welcome
        return welcome is not None and welcome.running and self._membership.entered is None

    @property
    def _rounds(self) -> Rounds:
        if self._rounds_or_none is None:
            raise UnsuitableError("call session.manage(model, optimizer) before training")
        return self._rounds_or_none

    # Iterating

    def epochs(self, count: int) -> Iterator[int]:
        """Yield the epochs that are left: a worker that joins begins where the others are."""
        # Now, and not at the first batch: what a script does between epochs is in the state that it is given, and
        # whoever is slow to start would find the others in a later epoch.
        with self._exits.exiting():
            self._rounds.be_member()
        return self._passes.epochs(self._rounds, count)

    def batches(  # noqa: PLR0913 - every one is a keyword with a default
        self,
        dataset: Any,
        *,
        epochs: int = 1,
        steps: int | None = None,
        shuffle: bool = True,
        collate: Callable[[list[Any]], Any] | None = None,
        workers: int = 0,
        micro_batch: int | None = None,
    ) -> Iterator[Any]:
        """Yield micro-batches of this worker's share of each global batch, on its device; step each of them.

        ``steps`` ends the pass after so many steps, on all workers alike. ``workers`` processes load ahead.
        ``micro_batch`` is the most samples to be computed at once; a larger share comes in pieces.
        """
        pin = self.device.type == "cuda"
        loader = Loader(dataset, collate=collate, workers=workers, device=self.device, pin=pin, seed=self._seed)
        feeder = feeder_of(self._rounds, loader, len(dataset), self.global_batch)
        # Pieces of the tail cannot be loaded ahead: processes that load are there because loading is slow.
        self._reporter.in_pieces = self._reporter.in_pieces and workers == 0
        feeder.micro = min((each for each in (micro_batch, self._reporter.memory_bound) if each), default=None)
        self._reporter.total_samples = len(dataset) * (self._passes.planned or max(epochs, self._passes.number + 2))
        ends = feeder.passes(epochs, steps)
        return self._exits.guard(self._iterate(feeder, loader, ends, shuffle=shuffle))

    def _iterate(
        self, feeder: Feeder, loader: Loader, ends: Iterator[int], *, shuffle: bool
    ) -> Generator[Any, None, None]:
        self._feeder = self._fed = feeder
        try:
            for end in ends:
                self._passes.number += 1
                self._rounds.learner.begin_pass(self._passes.number, self._passes.left(feeder.total, feeder.left))
                place = Place(self.global_batch, self._rounds.division.shares, self._rounds.rank)
                order = epoch_order(feeder.size, self._seed, self._passes.number, shuffle)
                order = self._rounds.learner.order(order, self._passes.number, place)
                yield from feeder.steps(self._passes.number, order, end)
            self._passes.check(self._rounds)
        finally:
            self._feeder = None
            loader.close()

    # Computing

    def backward(self, loss: Tensor) -> None:
        """Run backward for one of several losses of a batch; call `step` without a loss after the last."""
        computing.backward(self._rounds.learner.managed, loss)

    def step(self, loss: computing.Loss = None, *batch: Any, weight: float | None = None) -> None:
        """Take a batch's loss into account; update the model when the whole global batch is there.

        ``loss`` is a mean over the batch's samples, or over ``weight`` other things (tokens, valid pixels), or one loss
        for each sample. Given as a function of ``*batch``, it is computed here, and computed again in halves if it does
        not fit into memory.
        """
        feeder = self._feeder
        if feeder is None or feeder.piece is None:
            raise RuntimeError("there is no batch to step: call session.step once for each batch of session.batches")
        piece, feeder.piece = feeder.piece, None
        try:
            computing.compute(self._rounds, feeder, piece, loss, batch, weight)
        except RuntimeError as error:
            if not is_out_of_memory(error) or piece.size == 1:
                raise
            self._make_smaller(feeder, piece)
        with self._exits.exiting():
            self._rounds.complete()

    def _make_smaller(self, feeder: Feeder, piece: Intervals) -> None:
        feeder.micro = max(1, piece.size // 2)
        self._reporter.memory_bound = feeder.micro
        log.warning("%d samples do not fit into memory: going on with %d at once", piece.size, feeder.micro)
        self._rounds.retry(piece)
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def evaluate(
        self,
        dataset: Any,
        function: Callable[..., Mapping[str, Any]],
        *,
        batch: int = 256,
        collate: Callable[[list[Any]], Any] | None = None,
        workers: int = 0,
    ) -> dict[str, Any]:
        """Return the sums of ``function`` over the dataset, which the members share; exact, even if some are lost.

        ``function`` is called with a batch, as `batches` would give it, and returns sums by name. The models are in
        evaluation mode and no gradients are recorded.
        """
        rounds = self._rounds
        if rounds.progress.is_past(self._passes.number) and self._membership.current is not None:
            return dict(rounds.progress.result)  # the others are past this one already
        loader = Loader(dataset, collate=collate, workers=workers, device=self.device, seed=self._seed)
        evaluator = Evaluator(loader, len(dataset), batch, function)
        try:
            with self._exits.exiting(), torch.no_grad(), rounds.learner.managed.evaluating():
                return evaluator.alone() if self._is_late else evaluator.together(rounds)
        finally:
            rounds.evaluation = None
            loader.close()

    def _committed(self, round_: Committed) -> None:
        """Do what follows a commit; the engine calls this."""
        self._trace.committed(round_, self._rounds.learner)
        self._reporter.exchange = self._rounds.prober.measured
        self._reporter.committed(round_)
        self._reporter.local_steps = self._rounds.learner.last_local_steps
        self._reporter.logged.update(self._rounds.learner.figures)
        self._threads.follow(self._reporter.cpu_quota)
        self._saving.committed(
            round_.group.id.number, round_.progress.round, lead=round_.group.rank == 0, read=self._rounds.newest_tree
        )
