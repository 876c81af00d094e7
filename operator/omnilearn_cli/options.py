"""Command-line values with a little structure: `big=200,small=40`, `40:big-0=0.5`, `80:middle-1`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import typer

NumberT = TypeVar("NumberT", int, float)


def amounts(text: str, number: Callable[[str], NumberT], option: str) -> dict[str, NumberT]:
    """Parse `name=number,name=number`."""
    found: dict[str, NumberT] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, value = part.partition("=")
        parsed = _positive(value, number) if equals else None
        if parsed is None or not name:
            raise _bad(option, part, f"{option} small=20,big=160")
        found[name] = parsed
    return found


def factor(text: str, option: str) -> tuple[int, str, float]:
    """Parse `step:worker=factor`."""
    step, colon, rest = text.partition(":")
    worker, equals, value = rest.partition("=")
    at, by = _positive(step, int), _positive(value, float)
    if not colon or not equals or not worker or at is None or by is None:
        raise _bad(option, text, f"{option} 100:big-0=0.5")
    return at, worker, by


def moment(text: str, option: str) -> tuple[int, str]:
    """Parse `step:name`."""
    step, colon, name = text.partition(":")
    at = _positive(step, int)
    if not colon or not name or at is None:
        raise _bad(option, text, f"{option} 100:small")
    return at, name


def _positive(text: str, number: Callable[[str], NumberT]) -> NumberT | None:
    try:
        value = number(text)
    except ValueError:
        return None
    return value if 0 < value < 1e12 else None


def _bad(option: str, text: str, example: str) -> typer.BadParameter:
    return typer.BadParameter(f"'{text}' cannot be understood: write for example {example}", param_hint=option)
