"""The workers' traces: one JSON line per committed round and member. Read them, and merge them to one line per round.

A worker that was killed may have left half a line; whatever is no line of a trace is skipped and counted.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

Interval = tuple[int, int]
_Position = Annotated[int, Field(ge=0, le=2**53)]
_Span = tuple[_Position, _Position]
_Seconds = Annotated[float, Field(ge=0, le=1e9)]


class Times(BaseModel):
    """Where the time of a round went: each part apart from the others."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    step: _Seconds = 0.0
    compute: _Seconds = 0.0
    load: _Seconds = 0.0
    reduce: _Seconds = 0.0
    wait: _Seconds = 0.0
    tail: _Seconds = 0.0
    """What part of computing and loading was for the tail."""

    @property
    def busy(self) -> float:
        """The time for its own samples: loading and computing."""
        return self.compute + self.load


class Line(BaseModel):
    """What one member says of one round that it has committed."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)
    round: _Position
    step: _Position
    kind: Literal["step", "gradient", "evaluation", "empty"]
    """A gradient is what one worker sent to a server, which applied it alone or with others."""

    epoch: _Position = 0
    time: float
    generation: Annotated[str, Field(pattern=r"^\d+\..+$", max_length=100)]
    members: tuple[str, ...]
    plan: _Position = 0
    share: _Position = 0
    """Its share of a whole global batch."""

    interval: _Span
    """The samples of the round; of a gradient, those of its pass."""

    mine: tuple[_Span, ...] = ()
    used: tuple[_Position, ...] | None = None
    """Which samples stood at these positions for this member, where it has an order of its own."""

    size: _Position = 0
    """How many samples there are, where that is told."""

    weight: float | None = None
    loss: float | None = None
    seconds: Times = Times()
    delay: _Position | None = None
    """Updates since the parameters of a gradient were handed out."""

    server: _Span = (0, 0)
    """The generation and the round in which the server of a gradient began."""

    kept: tuple[_Span, ...] = ()
    """What of the pass was committed when that server began; what earlier servers had applied beyond it is undone."""

    disturbed: bool = False
    """True if members changed during the round: its times say nothing of the worker."""

    hash: str | None = None

    @property
    def samples(self) -> int:
        """How many samples this member computed."""
        return sum(max(high - low, 0) for low, high in self.mine)


@dataclass(frozen=True, slots=True)
class Round:
    """A committed round, with the lines of the members that wrote one."""

    number: int
    generation: str
    parts: Mapping[str, Line]
    superseded: int = 0
    """Lines of an earlier generation about the same round, which did not last."""

    @property
    def any(self) -> Line:
        """One of the lines: in what is common to all, they agree."""
        return next(iter(self.parts.values()))

    @property
    def samples(self) -> int:
        """Samples of the whole round."""
        low, high = self.any.interval
        return self.any.samples if self.any.kind == "gradient" else max(high - low, 0)

    @property
    def time(self) -> float:
        """When it was first committed."""
        return min(line.time for line in self.parts.values())


def read_lines(text: str) -> tuple[list[Line], int]:
    """Return the lines of a trace, and how many could not be read."""
    lines: list[Line] = []
    bad = 0
    for raw in text.splitlines():
        try:
            lines.append(Line.model_validate_json(raw))
        except ValidationError:
            bad += 1
    return lines, bad


def read_traces(folder: Path) -> tuple[dict[str, list[Line]], int]:
    """Return the lines of all workers, each with those of all its attempts, and how many could not be read."""
    found: dict[str, list[Line]] = defaultdict(list)
    bad = 0
    for file in sorted(folder.glob("*.jsonl")):
        lines, unreadable = read_lines(file.read_text(encoding="utf-8", errors="replace"))
        found[file.stem.rpartition("-")[0]] += lines
        bad += unreadable
    return dict(found), bad


def merge(traces: Mapping[str, Iterable[Line]]) -> list[Round]:
    """Return the rounds in order, each as the newest generation that committed it tells it.

    A round can be told by two generations: if all who had committed it were lost, the others computed it anew.
    """
    told: dict[int, dict[str, dict[str, Line]]] = defaultdict(lambda: defaultdict(dict))
    gradients: list[tuple[str, Line]] = []
    for worker, lines in traces.items():
        for line in lines:
            if line.kind == "gradient":
                gradients.append((worker, line))
            else:
                told[line.round][line.generation][worker] = line
    rounds = lasting(gradients)
    for number, by_generation in sorted(told.items()):
        newest = max(by_generation, key=_number)
        before = sum(len(parts) for generation, parts in by_generation.items() if generation != newest)
        rounds.append(Round(number, newest, by_generation[newest], before))
    return sorted(rounds, key=lambda one: (one.number, one.time))


def lasting(gradients: Iterable[tuple[str, Line]]) -> list[Round]:
    """Return each gradient as a round of its own, without those that a later server has undone."""
    found = list(gradients)
    servers = {(line.server, line.epoch, line.kept) for _, line in found}
    return [
        Round(line.round, line.generation, {worker: line})
        for worker, line in found
        if not any(began > line.server and _undoes(line, epoch, kept) for began, epoch, kept in servers)
    ]


def _undoes(line: Line, epoch: int, kept: Iterable[Interval]) -> bool:
    """Tell whether a later server, which began in that pass with what was kept of it, does without a gradient."""
    within = all(any(low <= a and b <= high for low, high in kept) for a, b in line.mine)
    return epoch < line.epoch or (epoch == line.epoch and not within)


def _number(generation: str) -> int:
    return int(generation.partition(".")[0])


def as_json(one: Round) -> dict[str, Any]:
    """Return a round as a line of steps.jsonl."""
    common = one.any.model_dump(include={"step", "kind", "epoch", "plan", "loss"})
    parts = {
        worker: {
            "samples": line.samples,
            **line.model_dump(include={"mine", "weight", "seconds", "delay", "disturbed", "hash"}, exclude_none=True),
        }
        for worker, line in sorted(one.parts.items())
    }
    return {
        "round": one.number,
        **common,
        "time": one.time,
        "generation": one.generation,
        "members": list(one.any.members),
        "interval": list(one.any.interval),
        "parts": parts,
    }


def write_rounds(rounds: Iterable[Round], path: Path) -> None:
    """Write one line per round."""
    with path.open("w", encoding="utf-8") as file:
        for one in rounds:
            file.write(json.dumps(as_json(one)) + "\n")
