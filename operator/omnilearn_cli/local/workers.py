"""The workers of a job as local processes: what to run, where, with which environment. Pure but for looking at files.

The launcher starts what is described here.
"""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from omnilearn_core.api import names
from omnilearn_core.api.job import OmniLearnJob, WorkerGroup
from omnilearn_core.api.template import Container

_PYTHONS = ("python", "python3")
_WITH_VALUE = ("-X", "-W")


class CannotStartError(Exception):
    """The job cannot run here; the sentence says why and what to do."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A worker: its command and what it may use; its processes come and go."""

    worker: str
    group: str
    device: str
    command: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    cpus: float | None = None


@dataclass(frozen=True, slots=True)
class Post:
    """What all processes of a job share: where they stand and whom they talk to."""

    job: str
    coordinator: str
    output: Path
    tokens: Path
    grace_seconds: float
    checkpoint: tuple[int, int] | None = None
    """Seconds between two, and how many are kept."""

    threads: int | None = None


def slots_of(job: OmniLearnJob, workdir: Path) -> list[Slot]:
    """Return the workers that the job begins with."""
    return [
        slot_of(job, group, names.worker_name(job.metadata.name, group.name, index), workdir)
        for group, index in job.spec.first_workers()
    ]


def slot_of(job: OmniLearnJob, group: WorkerGroup, worker: str, workdir: Path) -> Slot:
    """Return one worker of a group; CannotStartError if its command cannot be run here."""
    trainer = group.template.spec.trainer
    command = local_command([*trainer.command, *trainer.args] if trainer.command else [], group.name, workdir)
    try:
        cpus = group.template.spec.cpu_limit
    except ValueError as error:
        raise CannotStartError(f"the CPU limit of group {group.name}: {error}") from None
    if cpus is not None and not 0 < cpus <= 65536:
        raise CannotStartError(f"the CPU limit of group {group.name} is {cpus:g}: use more than 0")
    return Slot(worker, group.name, str(group.device), command, plain_env(trainer), cpus)


def plain_env(trainer: Container) -> tuple[tuple[str, str], ...]:
    """Return the template's variables that have plain values; those of the cluster have no meaning here."""
    entries = (trainer.model_extra or {}).get("env")
    return tuple(
        (str(entry["name"]), str(entry.get("value", "")))
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, dict) and "name" in entry and "valueFrom" not in entry
    )


def local_command(command: Sequence[str], group: str, workdir: Path) -> tuple[str, ...]:
    """Return a container's command as it runs here: with this Python, and the script of the manifest's folder."""
    if not command:
        raise CannotStartError(
            f"group {group} has no command, and a local run takes none from an image: write command: [python, train.py]"
        )
    program, *arguments = command
    if program in _PYTHONS:
        return (sys.executable, *_with_script(arguments, group, workdir))
    if shutil.which(program) is None and shutil.which(workdir / program) is None:
        raise CannotStartError(f"group {group}: the command {program} is not found: install it, or correct the name")
    return (program if shutil.which(program) else str(workdir / program), *arguments)


def _with_script(arguments: list[str], group: str, workdir: Path) -> list[str]:
    place = script_place(arguments)
    if place is None:
        return arguments
    script = Path(arguments[place])
    # An absolute path is one of the image; the same script usually lies beside the manifest.
    for found in (workdir / script, workdir / script.name):
        if found.is_file():
            return [*arguments[:place], str(found.resolve()), *arguments[place + 1 :]]
    raise CannotStartError(
        f"group {group}: the script {script} is not found in {workdir}: correct it, or use --workdir"
    )


def script_place(arguments: Sequence[str]) -> int | None:
    """Return where Python's arguments name a script; none if they name a module, a command or nothing."""
    place = 0
    while place < len(arguments) and arguments[place].startswith("-"):
        option = arguments[place]
        # -m and -c may stand at the end of others: -um.
        if option == "-" or (not option.startswith(("--", *_WITH_VALUE)) and {"m", "c"} & set(option)):
            return None
        place += 2 if option in _WITH_VALUE else 1
    return place if place < len(arguments) else None


def token_file(post: Post, slot: Slot, attempt: int) -> Path:
    """Return where a process finds its credential."""
    return post.tokens / names.pod_name(slot.worker, attempt)


def log_file(post: Post, slot: Slot, attempt: int) -> Path:
    """Return where the output of a process goes."""
    return post.output / "logs" / f"{names.pod_name(slot.worker, attempt)}.log"


def trace_file(post: Post, slot: Slot, attempt: int) -> Path:
    """Return where a process writes its committed rounds."""
    return post.output / "workers" / f"{names.pod_name(slot.worker, attempt)}.jsonl"


def environment(post: Post, slot: Slot, attempt: int, base: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a worker's process: the launcher's, ours, and what the template says."""
    inherited = {name: value for name, value in base.items() if not name.startswith("OMNILEARN_")}
    threads = post.threads or (max(1, math.ceil(slot.cpus)) if slot.cpus is not None else None)
    counts = {} if threads is None else {names.OMP_THREADS: str(threads), "MKL_NUM_THREADS": str(threads)}
    if threads is not None and not post.threads:
        counts[names.ENV_THREADS] = str(threads)
    ours = {
        "PYTHONUNBUFFERED": "1",
        names.ENV_JOB: post.job,
        names.ENV_WORKER: slot.worker,
        names.ENV_GROUP: slot.group,
        names.ENV_ATTEMPT: str(attempt),
        names.ENV_DEVICE: slot.device,
        names.ENV_COORDINATOR: post.coordinator,
        names.ENV_TOKEN_FILE: str(token_file(post, slot, attempt)),
        names.ENV_ADDRESS: "127.0.0.1",
        names.ENV_GRACE_SECONDS: f"{post.grace_seconds:g}",
        names.ENV_TRACE_FILE: str(trace_file(post, slot, attempt)),
    }
    return inherited | counts | ours | _checkpoint(post) | dict(slot.env)


def _checkpoint(post: Post) -> dict[str, str]:
    if post.checkpoint is None:
        return {}
    seconds, keep = post.checkpoint
    return {
        names.ENV_CHECKPOINT_DIR: str(post.output / "checkpoints"),
        names.ENV_CHECKPOINT_SECONDS: str(seconds),
        names.ENV_CHECKPOINT_KEEP: str(keep),
    }
