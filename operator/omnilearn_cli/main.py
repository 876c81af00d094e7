"""The `omnilearn` command. Each subcommand parses, calls, prints; what they do lives elsewhere."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
import yaml
from rich.console import Console

from omnilearn_core.api.crd import custom_resource_definition
from omnilearn_core.api.job import LawName
from omnilearn_core.control.shares import ImpossibleSplitError

from . import options, simulation, strategies, validation, whatif
from .jobs import BadJobError, the_job
from .local import command

app = typer.Typer(
    help="Train one model on unlike workers, each with the share that it can carry.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Files = Annotated[
    list[Path],
    typer.Argument(help="Manifests, each with one or more documents; - is standard input.", show_default=False),
]


@app.command()
def validate(files: Files) -> None:
    """Say everything that is wrong with manifests, as the API server would; exit 1 if anything is."""
    report = validation.validate_files(files)
    for line in report.lines:
        typer.echo(line)
    raise typer.Exit(code=1 if report.problems else 0)


@app.command()
def simulate(  # noqa: PLR0913, PLR0917 - every option is an argument
    file: Annotated[Path, typer.Argument(help="Manifest with one OmniLearnJob.", show_default=False)],
    law: Annotated[LawName | None, typer.Option(help="Law to look at. Default: the manifest's.")] = None,
    speeds: Annotated[str, typer.Option(help="Samples/s of one worker, by group: big=160,small=20.")] = "",
    add: Annotated[str, typer.Option(help="More workers, by group: small=4.")] = "",
    slow: Annotated[list[str] | None, typer.Option(help="A worker changes speed: 100:big-0=0.5.")] = None,
    resize: Annotated[list[str] | None, typer.Option(help="Its CPU limit changes: 100:big-0=0.5.")] = None,
    lose: Annotated[list[str] | None, typer.Option(help="A worker is lost: 150:small-0.")] = None,
    join: Annotated[list[str] | None, typer.Option(help="One more of a group joins: 200:small.")] = None,
    fixed: Annotated[float, typer.Option(min=0.0, max=0.95, help="Fixed cost, part of a balanced step.")] = 0.1,
    noise: Annotated[float, typer.Option(min=0.0, max=1.0, help="Noise of a control window.")] = 0.03,
    reduction_ms: Annotated[float, typer.Option(min=0.0, max=1e9, help="Time of the gradient reduction.")] = 0.0,
    model_mb: Annotated[float | None, typer.Option(min=0.001, max=1e7, help="Model: compares strategies.")] = None,
    megabits: Annotated[float, typer.Option(min=0.001, max=1e7, help="Network, megabits/s of each worker.")] = 1000.0,
    latency_ms: Annotated[float, typer.Option(min=0.0, max=1e6, help="Network, latency of a message.")] = 0.5,
    steps: Annotated[int, typer.Option(min=1, max=1_000_000, help="Steps to simulate.")] = 400,
    seed: Annotated[int, typer.Option(help="Seed of the noise.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Write a picture (PNG) here.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Try a manifest on a simulated cluster: who would get what, how fast, and why."""
    try:
        job = the_job(file)
        assumed = whatif.Assumptions(
            options.amounts(speeds, float, "--speeds"), options.amounts(add, int, "--add"),
            fixed, noise, steps, reduction_ms / 1000.0, seed,
            slow=[options.factor(text, "--slow") for text in slow or ()],
            resize=[options.factor(text, "--resize") for text in resize or ()],
            lose=[options.moment(text, "--lose") for text in lose or ()],
            join=[options.moment(text, "--join") for text in join or ()],
        )  # fmt: skip
        scenario = whatif.scenario_of(job, assumed)
        comparison = simulation.compare(whatif.computing(job, scenario), law or job.spec.law)
        found = strategies.compared(job, scenario, model_mb, megabits, latency_ms)
    except (BadJobError, whatif.BadAssumptionError, ImpossibleSplitError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(code=1) from None
    _present(comparison, found, whatif.notes(job, assumed, scenario), plot, json_file)


def _present(
    comparison: simulation.Comparison,
    found: strategies.Compared,
    notes: list[str],
    plot: Path | None,
    file: Path | None,
) -> None:
    """Print what was found; write the picture and the figures where asked."""
    console = Console(width=None if sys.stdout.isatty() else 110)
    simulation.show(comparison, console)
    if found.estimates:
        console.print(strategies.table_of(found))
        console.print(strategies.what_auto_would_do(found), soft_wrap=True)
    for note in notes:
        console.print(note, soft_wrap=True)
    figures = simulation.as_json(comparison) | strategies.as_json(found)
    try:
        if plot:
            from . import pictures  # noqa: PLC0415 - matplotlib takes seconds to import, and few commands draw

            pictures.draw(comparison, plot)
            console.print(f"picture: {plot}")
        if file:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
            console.print(f"figures: {file}")
    except OSError as error:
        typer.echo(f"{error.filename or plot or file} cannot be written: {error.strerror or error}", err=True)
        raise typer.Exit(code=1) from None


app.command()(command.run)


@app.command()
def crd() -> None:
    """Print the CustomResourceDefinition, for kubectl apply --server-side -f -."""
    sys.stdout.write("# Generated from operator/omnilearn_core/api by `make generate`. Do not edit.\n")
    yaml.safe_dump(custom_resource_definition(), sys.stdout, sort_keys=False, allow_unicode=True, width=120)


if __name__ == "__main__":
    app()
