"""The one job of a file, checked, for commands that work with a job."""

from __future__ import annotations

from pathlib import Path

from omnilearn_core.api.job import OmniLearnJob
from omnilearn_core.api.names import KIND
from omnilearn_core.api.validate import is_job, problems_of

from .manifests import UnreadableFileError, documents_of


class BadJobError(Exception):
    """The file does not hold one good job; the text says why."""


def the_job(file: Path) -> OmniLearnJob:
    """Return the only OmniLearnJob of a file."""
    try:
        jobs = [document for document in documents_of(file) if is_job(document.content)]
    except UnreadableFileError as error:
        raise BadJobError(f"{file}: {error}") from None
    if len(jobs) != 1:
        raise BadJobError(f"{file}: there are {len(jobs)} {KIND}s in this file: give a file with exactly one")
    if problems := problems_of(jobs[0].content):
        raise BadJobError("\n".join(f"{file}: {problem}" for problem in problems))
    return OmniLearnJob.from_manifest(jobs[0].content)
