"""What a caller may choose for a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .faults import Fault


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run a job here; the job itself is the manifest's."""

    workdir: Path
    output: Path
    faults: tuple[Fault, ...] = ()
    port: int = 0
    """Port of the coordinator; 0 takes a free one."""

    timeout: float | None = None
    """Seconds after which a job that is not complete has failed."""

    env: tuple[tuple[str, str], ...] = ()
    """Variables of all workers, after those of the template."""

    threads: int | None = None
    """Threads of each worker; otherwise its CPU limit, rounded up."""

    grace_seconds: float = 10.0
    """How long a worker may take to leave when it is asked to."""

    resume: bool = False
    """Go on from the checkpoints of an earlier run in the same output folder."""
