"""`omnilearn run`, as a user types it: options in, exit code out. 0 complete, 1 failed, 2 bad input, 3 cannot start."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from omnilearn_cli.jobs import BadJobError, the_job
from omnilearn_core.api.job import LawName, OmniLearnJob

from .ending import State
from .faults import BadFaultError, Do, Fault
from .reading import faults_of_file, faults_of_options
from .report import RunReport
from .run_options import RunOptions
from .workers import CannotStartError

_FAILED, _BAD_INPUT, _CANNOT_START, _INTERRUPTED = 1, 2, 3, 130
_CODES = {State.COMPLETE: 0, State.FAILED: _FAILED, State.INTERRUPTED: _INTERRUPTED}


def run(  # noqa: PLR0913, PLR0917 - every option is an argument
    file: Annotated[Path, typer.Argument(help="Manifest with one OmniLearnJob.", show_default=False)],
    output: Annotated[Path | None, typer.Option(help="Where results go. Default: out/run/<job>.")] = None,
    script: Annotated[Path | None, typer.Option(help="YAML list of faults: {at: 12s, do: kill, worker: a-0}.")] = None,
    kill: Annotated[list[str] | None, typer.Option(help="Kill a worker: 12s:big-0 or step40:big-0.")] = None,
    freeze: Annotated[list[str] | None, typer.Option(help="Stop a worker's process, as a hang would.")] = None,
    thaw: Annotated[list[str] | None, typer.Option(help="Let a frozen worker go on.")] = None,
    terminate: Annotated[list[str] | None, typer.Option(help="Ask a worker to leave, as an eviction does.")] = None,
    add: Annotated[list[str] | None, typer.Option(help="One more worker of a group: 12s:small.")] = None,
    cpu: Annotated[list[str] | None, typer.Option(help="Change a CPU limit: 12s:big-0=0.5.")] = None,
    coordinator_stop: Annotated[list[str] | None, typer.Option(help="Stop the coordinator: 12s.")] = None,
    coordinator_start: Annotated[list[str] | None, typer.Option(help="Start another: 15s.")] = None,
    law: Annotated[LawName | None, typer.Option(help="Who decides the shares. Default: the manifest's.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the coordinator; 0: a free one.")] = 0,
    workdir: Annotated[Path | None, typer.Option(help="Where workers run. Default: the manifest's folder.")] = None,
    timeout: Annotated[float | None, typer.Option(min=0.1, max=1e9, help="Seconds until the job has failed.")] = None,
    env: Annotated[list[str] | None, typer.Option(help="NAME=VALUE for all workers.")] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, max=4096, help="Threads of a worker. Default: its CPUs.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last run's checkpoints.")] = False,
) -> None:
    """Run a manifest here, as local processes, each held to its CPU limit. T is seconds from the start, or stepN."""
    struck = (kill, freeze, thaw, terminate, add, cpu, coordinator_stop, coordinator_start)  # in the order of Do
    try:
        job = with_law(the_job(file), law)
        options = RunOptions(
            workdir=(workdir or (Path() if file == Path("-") else file.parent)).resolve(),
            output=output or Path("out") / "run" / job.metadata.name,
            faults=(*_of_file(script), *_of_options(dict(zip(Do, struck, strict=True)))),
            port=port,
            timeout=timeout,
            env=tuple(_variable(text) for text in env or ()),
            threads=threads,
            resume=resume,
        )
    except (BadJobError, BadFaultError) as error:
        raise _refusal(error, _BAD_INPUT) from None
    raise typer.Exit(code=_CODES[_run(job, options).state])


def _run(job: OmniLearnJob, options: RunOptions) -> RunReport:
    from .run import run_job  # noqa: PLC0415 - only this command needs it

    console = Console(width=None if sys.stdout.isatty() else 120)
    try:
        report = run_job(job, options, console)
    except BadFaultError as error:
        raise _refusal(error, _BAD_INPUT) from None
    except CannotStartError as error:
        raise _refusal(error, _CANNOT_START) from None
    for line in summary(report, options.output):
        console.print(line, markup=False, emoji=False, highlight=False, soft_wrap=True)
    return report


def with_law(job: OmniLearnJob, law: LawName | None) -> OmniLearnJob:
    """Return the job with another law."""
    if law is None:
        return job
    batch = job.spec.batch.model_copy(update={"law": law})
    return job.model_copy(update={"spec": job.spec.model_copy(update={"batch": batch})})


def summary(report: RunReport, output: Path) -> list[str]:
    """Say in a few lines how a run went."""
    lines = [f"{report.state}: {report.why}"]
    if report.steps:
        speed = f"{report.samples_per_second:,.0f} samples/s"
        lines.append(f"{report.steps} steps, {report.samples} samples in {report.seconds:.1f} s ({speed})")
    took, equal = report.compute_seconds, report.uniform_seconds
    if report.steps and took:
        lines.append(f"computing took {took:.1f} s of it; with equal shares it would have taken {equal:.1f} s")
    audit = report.audit
    if audit.rounds:
        unseen = f", {audit.unseen} of workers that died before they wrote it down" if audit.unseen else ""
        lines.append(f"audit of {audit.rounds} rounds: {audit.lost} samples lost, {audit.doubled} doubled{unseen}")
    return [*lines, f"results: {output}"]


def _of_file(script: Path | None) -> list[Fault]:
    return [] if script is None else faults_of_file(script)


def _of_options(by_option: dict[Do, list[str] | None]) -> list[Fault]:
    return [fault for do, texts in by_option.items() for fault in faults_of_options(do, texts or ())]


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise typer.BadParameter(f"'{text}' is no variable: write for example --env SEED=1", param_hint="--env")
    return name, value


def _refusal(error: Exception, code: int) -> typer.Exit:
    typer.echo(str(error), err=True)
    return typer.Exit(code=code)
