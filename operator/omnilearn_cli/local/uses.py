"""How often each sample was used, where the strategy prefers some to others: from what was committed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from .traces import Round

FILE = "samples.csv"


def uses_of(rounds: Iterable[Round]) -> list[int] | None:
    """Return for each sample how often it was used; None if every pass used every sample once."""
    counts: Counter[int] = Counter()
    size, told = 0, False
    for one in rounds:
        if one.any.kind != "step":
            continue
        for line in one.parts.values():
            size = max(size, line.size)
            told = told or line.used is not None
            counts.update(line.used or ())
    return [counts[sample] for sample in range(max(size, max(counts, default=-1) + 1))] if told else None


def by_number(uses: Iterable[int]) -> dict[int, int]:
    """Return how many samples were used how often."""
    return dict(sorted(Counter(uses).items()))


def write_uses(uses: Iterable[int], path: Path) -> None:
    """Write one line for each sample."""
    lines = (f"{sample},{count}\n" for sample, count in enumerate(uses))
    path.write_text("sample,uses\n" + "".join(lines), encoding="utf-8")
