"""What the coordinator has to know of a job, taken from its manifest once; made by whoever starts a coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from omnilearn_core.api.job import OmniLearnJob
from omnilearn_core.api.names import worker_name
from omnilearn_core.api.strategy import Strategy, StrategyType

# Others have no tail: Auto has one until it has chosen another strategy.
_TAILED = (StrategyType.SYNCHRONOUS, StrategyType.AUTO)


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """What the workers of a group have in common."""

    name: str
    device: str = "cpu"
    capacity: float | None = None


@dataclass(frozen=True, slots=True)
class JobSettings:
    """A job as the coordinator sees it. All times are in seconds."""

    name: str
    global_batch: int
    law: str = "Affine"
    min_per_worker: int = 1
    max_per_worker: int | None = None
    tail_percent: int | None = None
    """How much of the global batch nobody is given beforehand; None: as seems best."""

    fewest: int = 1
    most: int = 16384
    expected: int = 1
    """Workers that will come, if all goes well: the first generation waits for them for a while."""

    join_timeout: float = 30.0
    silent_after: float = 10.0
    start_wait: float = 3.0
    """How long after the last join a start waits for more workers, if it has the fewest that it needs."""

    entry_timeout: float = 600.0
    """How long members that have built a generation may take to enter it: a step, and the transfer of the model."""

    strategy: Strategy = field(default_factory=Strategy)
    groups: Mapping[str, GroupSettings] = field(default_factory=dict)
    """The groups, by the name of their workers without its number."""

    @property
    def formation_timeout(self) -> float:
        """How long a generation that stands in the way of training may take to be built by all."""
        return max(5.0, self.silent_after)

    def group_of(self, worker: str) -> GroupSettings:
        """Return the group of a worker; of one that is not in the manifest, a group of its own."""
        name = worker.rpartition("-")[0]
        return self.groups.get(name) or GroupSettings(name)

    def only_serves(self, worker: str) -> bool:
        """Tell whether a worker is a server and nothing else."""
        name = self.strategy.server_group
        return name is not None and worker.rpartition("-")[0] == f"{self.name}-{name}"


def settings_of(job: OmniLearnJob) -> JobSettings:
    """Return what the coordinator has to know of a job."""
    spec = job.spec
    groups = {
        worker_name(job.metadata.name, group.name, 0).rpartition("-")[0]: GroupSettings(
            group.name, str(group.device), None if group.capacity is None else float(group.capacity)
        )
        for group in spec.workers
    }
    return JobSettings(
        name=job.metadata.name,
        global_batch=spec.batch.global_,
        law=str(spec.law),
        min_per_worker=spec.batch.min_per_worker,
        max_per_worker=spec.batch.max_per_worker,
        tail_percent=spec.batch.tail_percent if spec.strategy.type in _TAILED else 0,
        fewest=spec.fewest,
        most=max(spec.most, 1),
        expected=max(spec.most, 1),
        join_timeout=float(spec.membership.join_timeout_seconds),
        silent_after=float(spec.membership.silent_after_seconds),
        strategy=spec.strategy,
        groups=groups,
    )
