"""`omnilearn validate`: every problem of every document of every file, with file, document and path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from omnilearn_core.api.names import KIND
from omnilearn_core.api.validate import is_job, problems_of

from .manifests import UnreadableFileError, documents_of


@dataclass(frozen=True, slots=True)
class Report:
    """What to print, and how many problems there are."""

    lines: list[str]
    problems: int


def validate_files(files: Sequence[Path]) -> Report:
    """Check the files and say what is wrong with each, or that it is fine."""
    reports = [_validate(file) for file in files]
    return Report([line for report in reports for line in report.lines], sum(report.problems for report in reports))


def _validate(file: Path) -> Report:
    lines: list[str] = []
    jobs = problems = 0
    try:
        for document in documents_of(file):
            label = f"document {document.number}" + (f" ({document.name})" if document.name else "")
            if not is_job(document.content):
                lines.append(f"{file}: {label}: skipped, because it is a {document.content.get('kind')}")
                continue
            jobs += 1
            found = problems_of(document.content)
            problems += len(found)
            lines += [f"{file}: {label}: {problem}" for problem in found] or [f"{file}: {label}: ok"]
    except UnreadableFileError as error:
        return Report([*lines, f"{file}: {error}"], problems + 1)
    if not jobs:
        return Report([*lines, f"{file}: there is no {KIND} in this file: give one, with apiVersion and kind"], 1)
    return Report(lines, problems)
