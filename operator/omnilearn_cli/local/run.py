"""Run a job here: `run_job` for the command line, tests and benchmarks."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from omnilearn_core.api.job import OmniLearnJob

from . import outputs, report, uses
from .crew import Crew, Tools
from .display import Display, display_for
from .ending import Bounds, End
from .events import EventLog
from .faults import added_workers, next_worker, resolved
from .figures import training
from .launcher import Launcher, Orders, Seat
from .limits import Limits, open_limits
from .minding import Minder
from .report import Counts, RunReport
from .run_options import RunOptions
from .traces import write_rounds
from .view import View
from .workers import CannotStartError, Post, Slot, slot_of, slots_of

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Address:
    """Where the coordinator listens, and which workers it may see beyond those of the manifest."""

    port: int
    added: tuple[str, ...] = ()


SeatMaker = Callable[[OmniLearnJob, Address, EventLog], Seat]


def run_job(job: OmniLearnJob, options: RunOptions, console: Console, make_seat: SeatMaker | None = None) -> RunReport:
    """Run a job as local processes until it ends, and write its report.

    CannotStartError if it cannot even begin, BadFaultError if a fault names what is not there.
    """
    orders = _orders(job, options)
    outputs.prepare(options.output, job.metadata.name, resume=options.resume)
    with ExitStack() as stack:
        display = display_for(console)
        stack.callback(display.close)
        events = EventLog(options.output / "events.jsonl", time.time, display.event)
        stack.callback(events.close)
        run = asyncio.run(_run(job, options, orders, (events, display), make_seat or _coordinator))
    return _leave(job, options, run, events)


def _coordinator(job: OmniLearnJob, address: Address, events: EventLog) -> Seat:
    from .coordination import CoordinatorSeat  # noqa: PLC0415 - brings aiohttp

    return CoordinatorSeat(job, address.port, address.added, events)


@dataclass(frozen=True, slots=True)
class _Run:
    end: End
    view: View
    counts: Counts


def _orders(job: OmniLearnJob, options: RunOptions) -> Orders:
    """Return what the launcher is to do, with everything checked that can be checked before anything starts."""
    name, groups = job.metadata.name, {group.name: group for group in job.spec.workers}
    if not options.workdir.is_dir():
        raise CannotStartError(f"the folder {options.workdir} is not there: correct --workdir")

    def with_options(slot: Slot) -> Slot:
        return replace(slot, env=(*slot.env, *options.env))

    def another(group: str, taken: Iterable[str]) -> Slot:
        return with_options(slot_of(job, groups[group], next_worker(taken, name, group), options.workdir))

    slots = tuple(with_options(slot) for slot in slots_of(job, options.workdir))
    if not slots:
        raise CannotStartError("the job has no workers: raise replicas")
    faults = resolved(options.faults, name, list(groups), [slot.worker for slot in slots])
    deadlines = [limit for limit in (options.timeout, job.spec.active_deadline_seconds) if limit is not None]
    bounds = Bounds(
        startup_seconds=float(job.spec.startup_deadline_seconds),
        run_seconds=min(deadlines, default=None),
        failures=job.spec.restart.max_failures,
    )
    return Orders(slots, tuple(faults), bounds, options.grace_seconds, another)


async def _run(
    job: OmniLearnJob, options: RunOptions, orders: Orders, told: tuple[EventLog, Display], make_seat: SeatMaker
) -> _Run:
    events, display = told
    port = free_port(options.port)
    seat = make_seat(job, Address(port, tuple(_added(job, orders))), events)
    try:
        await seat.start()
    except OSError as error:
        raise CannotStartError(_port_sentence(port, error)) from None
    try:
        with ExitStack() as stack:
            limits, minder, tokens = _equip(stack)
            if limits.warning and any(slot.cpus for slot in orders.slots):
                events.add("Limits", limits.warning)
            post = _post(job, options, port, tokens)
            crew = Crew(post, options.workdir, Tools(limits, minder, seat.tokens, events))
            launcher = Launcher(orders, seat, crew, events, display)
            end = await launcher.run()
            events.add(str(end.state), end.why)
        restarts = max(crew.starts - len(crew.workers), 0)
        counts = Counts(restarts=restarts, failures=crew.failures, preemptions=crew.preemptions)
        return _Run(end, launcher.view, counts)
    finally:
        await seat.stop()


def _equip(stack: ExitStack) -> tuple[Limits, Minder, Path]:
    minder = Minder()
    stack.callback(minder.close)
    return open_limits(os.getpid()), minder, stack.enter_context(_private_folder(minder))


@contextmanager
def _private_folder(minder: Minder) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="omnilearn-"))
    minder.mind("folder", folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _post(job: OmniLearnJob, options: RunOptions, port: int, tokens: Path) -> Post:
    saving = job.spec.checkpoint
    return Post(
        job=job.metadata.name,
        coordinator=f"ws://{HOST}:{port}",
        output=options.output.resolve(),
        tokens=tokens,
        grace_seconds=options.grace_seconds,
        checkpoint=None if saving is None else (saving.every_seconds, saving.keep),
        threads=options.threads,
    )


def _added(job: OmniLearnJob, orders: Orders) -> Sequence[str]:
    groups = [group.name for group in job.spec.workers]
    return added_workers(orders.faults, job.metadata.name, groups, [slot.worker for slot in orders.slots])


def free_port(wanted: int) -> int:
    """Return a port that is free now: the wanted one, or any for 0; CannotStartError if it is taken."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((HOST, wanted))
            # Only a listener finds out about another: of two bound ones, the kernel refuses the second listen.
            trial.listen(1)
        except OSError as error:
            raise CannotStartError(_port_sentence(wanted, error)) from None
        return int(trial.getsockname()[1])


def _port_sentence(port: int, error: OSError) -> str:
    return f"the coordinator cannot listen on port {port} ({error.strerror}): choose another with --port"


def _leave(job: OmniLearnJob, options: RunOptions, run: _Run, events: EventLog) -> RunReport:
    """Write everything that a run leaves."""
    told = report.read_rounds(options.output)
    rounds = told[0]
    found = report.report_of(job.metadata.name, run.end, run.view, told, events.events, run.counts)
    write_rounds(rounds, options.output / "steps.jsonl")
    report.write_report(found, options.output / "report.json")
    if steps := training(rounds):
        if (used := uses.uses_of(steps)) is not None:
            uses.write_uses(used, options.output / uses.FILE)
        from . import picture  # noqa: PLC0415 - matplotlib takes seconds to import

        picture.draw(job.metadata.name, steps, events.events, options.output / "shares.png")
    return found
