"""All control laws by the names that users write, and their states as JSON."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter, ValidationError

from .affine import Affine
from .law import Law, State
from .learning import Knowledge
from .open_loop import Nothing, Probed, Static, Uniform
from .per_epoch import Epoch, PerEpoch
from .proportional import Paces, Proportional

DEFAULT = "Affine"

LAWS: dict[str, Law[Any]] = {law.name: law for law in (Uniform(), Static(), Proportional(), PerEpoch(), Affine())}

_STATES: dict[str, TypeAdapter[Any]] = {
    "Uniform": TypeAdapter(State[Nothing]),
    "Static": TypeAdapter(State[Probed]),
    "Proportional": TypeAdapter(State[Paces]),
    "PerEpoch": TypeAdapter(State[Epoch]),
    "Affine": TypeAdapter(State[Knowledge]),
}


class BadStateError(ValueError):
    """A stored state that this law cannot go on with; start it afresh."""


def to_json(state: State[Any]) -> bytes:
    """Return a state as JSON, for another process to go on with."""
    return _STATES[state.law].dump_json(state)


def from_json(law: str, text: str | bytes) -> State[Any]:
    """Return the state of ``law`` from JSON; it is input like any other, so it is checked."""
    try:
        state: State[Any] = _STATES[law].validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise BadStateError(
            f"the stored state of law {law} is damaged at {where or 'its start'}: {first['msg']}"
        ) from None
    if state.law != law:
        raise BadStateError(f"the stored state is of law {state.law}, not {law}")
    return state
