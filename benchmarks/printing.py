"""What benchmarks of running programs have in common: their options, their goals as a table, and what they leave."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from .goals import Verdict


def options_of(name: str, description: str) -> argparse.ArgumentParser:
    """Return a parser with the options that every benchmark has."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=description)
    parser.add_argument("--quick", action="store_true", help="a small part of it, for the tests")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write a picture to FILE")
    return parser


def console() -> Console:
    """Return a console that is wide enough for the tables, also in a file."""
    return Console(width=None if Console().is_terminal else 150)


def goals_table(title: str, verdicts: Sequence[Verdict]) -> Table:
    """Return the goals, met or not, as a table."""
    table = Table(title=title, show_lines=True)
    for column in ("goal", "wanted", "measured", "", "where"):
        table.add_column(column)
    for one in verdicts:
        table.add_row(one.goal, one.wanted, one.measured, "met" if one.met else "NOT MET", one.where)
    return table


def write_figures(path: Path, results: dict[str, Any], verdicts: Sequence[Verdict]) -> None:
    """Write all figures and the verdicts on them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figures = {**results, "goals": [one.as_json() for one in verdicts]}
    path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    print(f"figures: {path}")
