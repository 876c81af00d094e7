"""How a job stands, as the launcher sees it: what the display shows and the report keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from omnilearn_core.api.strategy import Choice

from .ending import Verdict


@dataclass(frozen=True, slots=True)
class Member:
    """A worker that takes part, and where the time of its steps goes, each part apart from the others."""

    worker: str
    device: str = "cpu"
    attempt: int = 0
    share: int = 0
    beyond: int = 0
    """Samples of a step that it takes beyond its share, because it is early."""

    local_steps: int = 0
    staleness: float | None = None
    """Mean delay of its gradients, in updates."""

    samples_per_second: float | None = None
    compute_seconds: float = 0.0
    load_seconds: float = 0.0
    reduce_seconds: float = 0.0
    wait_seconds: float = 0.0
    step_seconds: float = 0.0
    state: str = ""


@dataclass(frozen=True, slots=True)
class DoneFacts:
    """What a member said at its end."""

    steps: int
    samples: int
    lost: int
    doubled: int
    skipped: int
    parameter_hash: str


@dataclass(frozen=True, slots=True)
class View:
    """A job at one moment."""

    phase: str = "Starting"
    generation: int | None = None
    members: tuple[Member, ...] = ()
    joined: frozenset[str] = frozenset()
    """Workers whose script has come to its first step: members, and those who wait to be."""

    step: int = 0
    epoch: int = 0
    samples: int = 0
    total_samples: int | None = None
    loss: float | None = None
    logged: Mapping[str, float] = field(default_factory=dict)
    imbalance: float | None = None
    choice: Choice | None = None
    """What Auto has chosen."""

    decisions: tuple[tuple[float, str], ...] = ()
    regroups: int = 0
    verdict: Verdict | None = None
    done: Mapping[str, DoneFacts] = field(default_factory=dict)
