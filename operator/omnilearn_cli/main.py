"""The `omnilearn` command. Each subcommand parses, calls, prints; what they do lives elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
import yaml

from omnilearn_core.api.crd import custom_resource_definition

from . import validation

app = typer.Typer(
    help="Train one model on unlike workers, each with the share that it can carry.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Files = Annotated[list[Path], typer.Argument(help="Manifests, each with one or more documents.", show_default=False)]


@app.command()
def validate(files: Files) -> None:
    """Say everything that is wrong with manifests, as the API server would; exit 1 if anything is."""
    report = validation.validate_files(files)
    for line in report.lines:
        typer.echo(line)
    raise typer.Exit(code=1 if report.problems else 0)


@app.command()
def crd() -> None:
    """Print the CustomResourceDefinition, for kubectl apply --server-side -f -."""
    sys.stdout.write("# Generated from operator/omnilearn_core/api by `make generate`. Do not edit.\n")
    yaml.safe_dump(custom_resource_definition(), sys.stdout, sort_keys=False, allow_unicode=True, width=120)


if __name__ == "__main__":
    app()
