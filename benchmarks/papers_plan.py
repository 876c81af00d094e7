"""A run of `benchmarks.papers` as data: what is to be run, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from omnilearn_coordinator.settings import GroupSettings, JobSettings
from omnilearn_core.api.names import worker_name
from omnilearn_core.api.strategy import Strategy

JOB = "papers"


@dataclass(frozen=True, slots=True)
class Plan:
    """One run."""

    speeds: tuple[float, ...]
    """Of every worker, in samples per second."""

    strategy: Strategy = field(default_factory=Strategy)
    law: str = "Affine"
    batch: int = 256
    rate: float = 0.1
    seed: int = 0
    seconds: float = 6.0
    subject: str = "pictures"
    samples: int = 60_000
    skew: float = 0.0
    told: bool = True
    """The manifest says how fast each worker is, so that the law need not find out first."""

    groups: str = ""
    """The group of every worker, a letter each; empty: one group."""

    megabits: float | None = None
    """What the network lets through to a worker, in a second."""

    far: bool = False
    """Only groups are far from each other: inside them, the network is fast."""

    visits: tuple[tuple[float, float], ...] = ()
    """When the second worker is killed, and when it comes back, in seconds."""

    @property
    def names(self) -> list[str]:
        """The workers; everybody has a name of a group of its own, because capacity is told by group."""
        return [worker_name(JOB, f"{letter}{place}", 0) for place, letter in enumerate(self.letters)]

    @property
    def letters(self) -> str:
        """The group of every worker."""
        return self.groups or "w" * len(self.speeds)

    def settings(self) -> JobSettings:
        """Return the job as the coordinator sees it."""
        groups = {
            name.rpartition("-")[0]: GroupSettings(letter, capacity=speed if self.told else None)
            for name, letter, speed in zip(self.names, self.letters, self.speeds, strict=True)
        }
        count = len(self.speeds)
        return JobSettings(
            name=JOB, global_batch=self.batch, law=self.law, fewest=1, most=count, expected=count, tail_percent=0,
            silent_after=3.0, strategy=self.strategy, groups=groups,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run."""

    curve: list[tuple[float, float]]
    """How good the model was, and when, in seconds since the start."""

    progress: list[tuple[float, float]]
    """How many samples were in updates of the model, and when."""

    updates: int
    seconds: float
    step_seconds: float
    """Between two updates, once the shares have settled."""

    delays: dict[str, tuple[float, int]]
    """Mean and largest delay of each worker's gradients, if there is a server."""

    discarded: float
    """The part of the gradients that was thrown away."""

    idle: float = 1.0
    """The part of the time in which the machine's cores had nothing to do: if little, paced workers were late."""

    @property
    def samples(self) -> float:
        """Samples in updates of the model, at the end."""
        return self.progress[-1][1] if self.progress else 0.0
