"""Kubernetes quantities as numbers: ``500m``, ``2``, ``1.5Gi``."""

from __future__ import annotations

import math
import re

_SUFFIXES = {
    "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d{1,2})|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII)


def parse_quantity(quantity: int | float | str) -> float:
    """Return the number that a quantity stands for; ValueError with a sentence if it is none."""
    if isinstance(quantity, (int, float)):
        return float(quantity)
    if match := _QUANTITY.fullmatch(quantity):
        number, exponent, suffix = match.groups()
        value = float(number) * (10.0 ** int(exponent) if exponent else _SUFFIXES[suffix or ""])
        if math.isfinite(value):
            return value
    raise ValueError(f"{quantity!r} is no quantity: write a number such as 2, 0.5, 500m or 4Gi")
