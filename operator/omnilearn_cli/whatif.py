"""`omnilearn simulate`: a manifest and a few assumptions become a scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from omnilearn_core.api.job import Device, OmniLearnJob, WorkerGroup
from omnilearn_core.api.names import worker_name
from omnilearn_core.simulate.cluster import Event, Joins, Leaves, Scenario, SimulatedWorker, SpeedChange, When

# What a worker is taken to do where the user gives no speeds; only the ratios matter for the comparison.
SAMPLES_PER_SECOND_AND_CPU = 100.0
CPUS_OF_A_GPU = 20.0


class BadAssumptionError(ValueError):
    """An option that does not fit the manifest; the sentence says what to write."""


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What the manifest does not say."""

    speeds: Mapping[str, float]  # samples per second of one worker, by group
    add: Mapping[str, int]  # more workers, by group
    fixed_share: float  # of a balanced step, that is fixed cost
    noise: float
    steps: int
    reduction_seconds: float
    seed: int
    slow: Sequence[tuple[int, str, float]] = ()
    resize: Sequence[tuple[int, str, float]] = ()
    lose: Sequence[tuple[int, str]] = ()
    join: Sequence[tuple[int, str]] = ()


def scenario_of(job: OmniLearnJob, assumed: Assumptions) -> Scenario:
    """Return the run to simulate."""
    _ensure_groups(job, [*assumed.speeds, *assumed.add, *(group for _, group in assumed.join)])
    workers = _workers(job, assumed)
    fixed = assumed.fixed_share / (1.0 - assumed.fixed_share) * job.spec.batch.global_ / sum(w.speed for w in workers)
    workers = [replace(worker, fixed_seconds=fixed) for worker in workers]
    return Scenario(
        global_batch=job.spec.batch.global_,
        workers=tuple(workers),
        steps=assumed.steps,
        events=_events(job, workers, assumed),
        reduction_seconds=assumed.reduction_seconds,
        steps_per_epoch=max(1, assumed.steps // 5),
        seed=assumed.seed,
    )


def assumption_note(job: OmniLearnJob, assumed: Assumptions) -> str:
    """Say which speeds were taken, and how to give others."""
    taken = ", ".join(f"{group.name} {speed_of(group, assumed.speeds):g}" for group in job.spec.workers)
    hint = "" if assumed.speeds else "; give your own with --speeds, for example from a first run"
    return f"Simulated with samples/s of one worker: {taken}{hint}."


def speed_of(group: WorkerGroup, speeds: Mapping[str, float]) -> float:
    """Return the samples per second of one worker: as given, by capacity, by CPU limit, or one CPU's."""
    if group.name in speeds:
        return speeds[group.name]
    if group.capacity is not None:
        return group.capacity * SAMPLES_PER_SECOND_AND_CPU
    if group.device is Device.GPU:
        return CPUS_OF_A_GPU * SAMPLES_PER_SECOND_AND_CPU
    return (group.template.spec.cpu_limit or 1.0) * SAMPLES_PER_SECOND_AND_CPU


def _workers(job: OmniLearnJob, assumed: Assumptions) -> list[SimulatedWorker]:
    room = job.spec.most + sum(assumed.add.values())
    workers = [
        _worker(job, group, index, assumed)
        for group in job.spec.workers
        for index in range(group.replicas + assumed.add.get(group.name, 0))
    ]
    return workers[:room]


def _worker(job: OmniLearnJob, group: WorkerGroup, index: int, assumed: Assumptions) -> SimulatedWorker:
    return SimulatedWorker(
        name=worker_name(job.metadata.name, group.name, index),
        speed=speed_of(group, assumed.speeds),
        noise=assumed.noise,
        group=group.name,
        device=str(group.device),
        minimum=job.spec.batch.min_per_worker,
        maximum=job.spec.batch.max_per_worker,
        capacity=group.capacity,
        quota=group.template.spec.cpu_limit if group.device is Device.CPU else None,
    )


def _events(job: OmniLearnJob, workers: Sequence[SimulatedWorker], assumed: Assumptions) -> tuple[Event, ...]:
    events: list[Event] = []
    for changes, told in ((assumed.slow, False), (assumed.resize, True)):
        for step, name, factor in changes:
            events.append(SpeedChange(When(step=step), _full_name(job, workers, name), factor, told))
    for step, name in assumed.lose:
        events.append(Leaves(When(step=step), _full_name(job, workers, name)))
    joined: dict[str, int] = {}
    for step, name in assumed.join:
        group = next(group for group in job.spec.workers if group.name == name)
        index = sum(worker.group == name for worker in workers) + joined.get(name, 0)
        joined[name] = joined.get(name, 0) + 1
        worker = replace(_worker(job, group, index, assumed), fixed_seconds=workers[0].fixed_seconds)
        events.append(Joins(When(step=step), worker))
    return tuple(events)


def _full_name(job: OmniLearnJob, workers: Sequence[SimulatedWorker], name: str) -> str:
    """Return the worker that is meant by its full name, or by its group and index alone."""
    names = [worker.name for worker in workers]
    for candidate in (name, f"{job.metadata.name}-{name}"):
        if candidate in names:
            return candidate
    raise BadAssumptionError(f"there is no worker {name}: use one of {', '.join(names[:8])}")


def _ensure_groups(job: OmniLearnJob, groups: Sequence[str]) -> None:
    known = [group.name for group in job.spec.workers]
    for group in groups:
        if group not in known:
            raise BadAssumptionError(f"there is no group {group}: use one of {', '.join(known)}")
