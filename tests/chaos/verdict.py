"""What must be true after all faults, from what the workers wrote down. Pure, but for reading files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from omnilearn_cli.local.audit import Audit, audit
from omnilearn_cli.local.traces import Line, merge, read_lines

_TAIL = 5


@dataclass(frozen=True, slots=True)
class Traces:
    """The lines of every process, by worker and attempt."""

    lines: dict[tuple[str, int], list[Line]]
    unreadable: int

    @classmethod
    def read(cls, folder: Path) -> Traces:
        """Read all traces of a folder."""
        lines, unreadable = {}, 0
        for file in sorted(folder.glob("*.jsonl")):
            worker, _, attempt = file.stem.rpartition("-")
            lines[worker, int(attempt)], bad = read_lines(file.read_text(encoding="utf-8", errors="replace"))
            unreadable += bad
        return cls(lines, unreadable)

    def audit(self) -> Audit:
        """Return whether every sample of every round was computed once."""
        by_worker: dict[str, list[Line]] = defaultdict(list)
        for (worker, _), lines in self.lines.items():
            by_worker[worker] += lines
        return audit(merge(by_worker))

    def disagreements(self) -> Iterator[str]:
        """Yield where members of the same generation had different parameters after the same round."""
        hashes: dict[tuple[int, str], dict[str, str]] = defaultdict(dict)
        for (worker, attempt), lines in self.lines.items():
            for line in _together(lines):
                hashes[line.round, line.generation][f"{worker}-{attempt}"] = line.hash or ""
        for (round_, generation), by_process in sorted(hashes.items()):
            if len(set(by_process.values())) > 1:
                yield f"round {round_} of generation {generation}: {by_process}"

    def strays(self) -> Iterator[str]:
        """Yield processes that went on from a round which a later generation committed anew.

        A member that is given up may still complete an old operation; then it has to be healed before it goes on.
        """
        truth: dict[int, str] = {}
        together = {process: _together(lines) for process, lines in self.lines.items()}
        for lines in together.values():
            for line in lines:
                truth[line.round] = max(truth.get(line.round, line.generation), line.generation, key=_number)
        for (worker, attempt), lines in together.items():
            later = {line.generation for line in lines}
            for line in lines:
                newer = truth[line.round]
                if newer != line.generation and newer in later:
                    yield f"{worker}-{attempt} has round {line.round} of {line.generation} and was in {newer}, too"


def _together(lines: Sequence[Line]) -> list[Line]:
    """Return the lines about what all members did together: a gradient is one worker's own."""
    return [line for line in lines if line.kind != "gradient"]


def _number(generation: str) -> int:
    return int(generation.partition(".")[0])


@dataclass(frozen=True, slots=True)
class Recovery:
    """How long a fault lasted, in seconds."""

    fault: str
    kind: str
    """What the survivors had to notice: a death, a silence, a failure that was told, or a new coordinator."""

    to_commit: float
    """From the fault to the survivors' next commit in a new generation."""

    pause: float
    """The same without what they computed in that round."""

    def to_json(self) -> dict[str, object]:
        """Return it for a file."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a process uses at a moment when the job is whole."""

    threads: int
    sockets: int
    memory: float


def growth(samples: Sequence[Footprint]) -> Footprint:
    """Return how much more is used at the end than early on, by the medians of a few samples each."""
    early, late = samples[_TAIL : 2 * _TAIL], samples[-_TAIL:]
    return Footprint(
        round(median(s.threads for s in late) - median(s.threads for s in early)),
        round(median(s.sockets for s in late) - median(s.sockets for s in early)),
        median(s.memory for s in late) - median(s.memory for s in early),
    )
