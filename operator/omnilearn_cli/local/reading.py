"""Faults as people write them: a YAML list, or options such as `--kill 12s:big-0`. Pure but for the opened file."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from .faults import TO_WORKERS, BadFaultError, Do, Fault, Moment

_FIELDS = ("at", "step", "do", "worker", "group", "cpu", "stay")
_LATEST = 1e9


def faults_of_file(path: Path) -> list[Fault]:
    """Return the faults of a file."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadFaultError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise BadFaultError(f"{path}{where}: this is not YAML") from None
    try:
        return faults_of(content)
    except BadFaultError as error:
        raise BadFaultError(f"{path}: {error}") from None


def faults_of(content: Any) -> list[Fault]:
    """Return the faults of a document."""
    if content is None:
        return []
    if not isinstance(content, list):
        raise BadFaultError("write a list, each entry like {at: 12s, do: kill, worker: big-0}")
    return [_fault(f"entry {number}", entry) for number, entry in enumerate(content, start=1)]


def _fault(where: str, entry: Any) -> Fault:
    if not isinstance(entry, dict):
        raise BadFaultError(f"{where} is no mapping: write for example {{at: 12s, do: kill, worker: big-0}}")
    for field in entry:
        if field not in _FIELDS:
            raise BadFaultError(f"{where} has a field {field}: use {', '.join(_FIELDS)}")
    do = _do(where, entry.get("do"))
    return Fault(
        at=_moment(where, entry),
        do=do,
        target=_target(where, do, entry),
        cpus=_cpus(where, do, entry.get("cpu")),
        stays_away=_stays_away(where, do, entry.get("stay")),
    )


def _do(where: str, value: Any) -> Do:
    if value not in list(Do):
        said = "says nothing" if value is None else f"says {value}"
        raise BadFaultError(f"{where} {said} in do: use one of {', '.join(Do)}")
    return Do(value)


def _moment(where: str, entry: dict[str, Any]) -> Moment:
    if ("at" in entry) == ("step" in entry):
        raise BadFaultError(f"{where} needs a time, either at: 12s or step: 40")
    if "step" in entry:
        step = entry["step"]
        if type(step) is not int or not 0 <= step <= _LATEST:
            raise BadFaultError(f"{where} has step {step}: use a whole number such as 40")
        return Moment(step=step)
    seconds = _seconds(str(entry["at"]))
    if seconds is None:
        raise BadFaultError(f"{where} has at {entry['at']}: use seconds such as 12s")
    return Moment(seconds=seconds)


def _target(where: str, do: Do, entry: dict[str, Any]) -> str:
    wanted = "worker" if do in TO_WORKERS else "group" if do is Do.ADD else None
    for field in ("worker", "group"):
        if field in entry and field != wanted:
            raise BadFaultError(f"{where} has a {field}, but {do} {f'needs a {wanted}' if wanted else 'takes none'}")
    if wanted is None:
        return ""
    name = entry.get(wanted)
    if not isinstance(name, str) or not name:
        raise BadFaultError(f"{where} needs the name of a {wanted}, because {do} happens to one")
    return name


def _cpus(where: str, do: Do, value: Any) -> float | None:
    if do is not Do.CPU:
        if value is not None:
            raise BadFaultError(f"{where} has a cpu, but {do} takes none")
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 4096:
        raise BadFaultError(f"{where} has cpu {value}: use a number of CPUs such as 0.5")
    return float(value)


def _stays_away(where: str, do: Do, value: Any) -> bool:
    if value is None:
        return False
    if value != "away" or do not in (Do.KILL, Do.TERMINATE):
        raise BadFaultError(f"{where} has stay {value}: only kill and terminate can have it, and only stay: away")
    return True


def faults_of_options(do: Do, texts: Iterable[str]) -> list[Fault]:
    """Return the faults of one option, each written `moment:name`, with `=cpus` for `--cpu`, or just `moment`."""
    return [_of_option(do, text) for text in texts]


def _of_option(do: Do, text: str) -> Fault:
    when, colon, rest = text.partition(":")
    name, equals, amount = rest.partition("=")
    at, named, cpus = _moment_of(when), do in TO_WORKERS or do is Do.ADD, _number(amount)
    fits = at is not None and bool(colon and name) == named and bool(equals) == (do is Do.CPU)
    if at is None or not fits or (do is Do.CPU and not (cpus is not None and 0 < cpus <= 4096)):
        raise BadFaultError(f"'{text}' cannot be understood: write for example {_example(do)}")
    return Fault(at=at, do=do, target=name, cpus=cpus if do is Do.CPU else None)


def _example(do: Do) -> str:
    match do:
        case Do.CPU:
            return "--cpu 12s:big-0=0.5"
        case Do.ADD:
            return "--add 12s:small"
        case Do.STOP_COORDINATOR:
            return "--coordinator-stop 12s"
        case Do.START_COORDINATOR:
            return "--coordinator-start 15s"
        case _:
            return f"--{do} 12s:big-0 or --{do} step40:big-0"


def _moment_of(text: str) -> Moment | None:
    if text.startswith("step"):
        number = text.removeprefix("step")
        return Moment(step=int(number)) if number.isascii() and number.isdigit() and len(number) < 10 else None
    seconds = _seconds(text)
    return None if seconds is None else Moment(seconds=seconds)


def _seconds(text: str) -> float | None:
    seconds = _number(text.strip().removesuffix("s"))
    return seconds if seconds is not None and 0 <= seconds <= _LATEST else None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
