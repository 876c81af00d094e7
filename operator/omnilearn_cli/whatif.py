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

# More would take minutes.
MOST_WORKERS = 1024

# PerEpoch decides so many times in a run.
EPOCHS = 5


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
    speeds = speeds_of(job, assumed.speeds)
    workers = _workers(job, assumed, speeds)
    total = sum(worker.speed for worker in workers)
    fixed = assumed.fixed_share / (1.0 - assumed.fixed_share) * job.spec.batch.global_ / total
    workers = [replace(worker, fixed_seconds=fixed) for worker in workers]
    return Scenario(
        global_batch=job.spec.batch.global_,
        workers=tuple(workers),
        steps=assumed.steps,
        events=_events(job, workers, assumed, speeds),
        reduction_seconds=assumed.reduction_seconds,
        steps_per_epoch=max(1, assumed.steps // EPOCHS),
        seed=assumed.seed,
    )


def computing(job: OmniLearnJob, scenario: Scenario) -> Scenario:
    """Return the run as a law sees it: a worker that only serves has no share, unless it is alone."""
    everybody = (*scenario.workers, *(event.worker for event in scenario.events if isinstance(event, Joins)))
    serving = {worker.name for worker in everybody if worker.group == job.spec.strategy.server_group}
    workers = tuple(worker for worker in scenario.workers if worker.name not in serving)
    events = tuple(
        event
        for event in scenario.events
        if (event.worker.name if isinstance(event, Joins) else event.worker) not in serving
    )
    return replace(scenario, workers=workers, events=events) if workers else scenario


def notes(job: OmniLearnJob, assumed: Assumptions, scenario: Scenario) -> list[str]:
    """Say what was assumed and how to assume otherwise, and what a real job would do differently."""
    taken = ", ".join(f"{group} {speed:g}" for group, speed in speeds_of(job, assumed.speeds).items())
    hint = "" if assumed.speeds else "; give your own with --speeds, for example from a first run"
    said = [
        f"Simulated with samples/s of one worker: {taken}; fixed cost {assumed.fixed_share:.0%} of a balanced step,"
        f" noise {assumed.noise:.0%}, {EPOCHS} epochs{hint}."
    ]
    left = len(scenario.workers)
    for event in sorted(scenario.events, key=lambda event: event.when.step or 0):
        left += isinstance(event, Joins) - isinstance(event, Leaves)
        if isinstance(event, Leaves) and left < job.spec.fewest:
            said.append(
                f"From step {event.when.step} only {left} workers are left, fewer than the {job.spec.fewest} that"
                " the job needs: it would wait for more, the simulation goes on."
            )
    return said


def speeds_of(job: OmniLearnJob, given: Mapping[str, float]) -> dict[str, float]:
    """Return the samples per second of one worker of each group: as given, by capacity, or by CPUs."""
    groups = job.spec.workers
    by_capacity = all(group.capacity is not None for group in groups)
    return {
        group.name: given[group.name]
        if group.name in given
        else SAMPLES_PER_SECOND_AND_CPU * (float(group.capacity or 1) if by_capacity else _cpus(group))
        for group in groups
    }


def _cpus(group: WorkerGroup) -> float:
    if group.device is Device.GPU:
        return CPUS_OF_A_GPU
    limit = _cpu_limit(group)
    return 1.0 if limit is None else limit


def _cpu_limit(group: WorkerGroup) -> float | None:
    """Return the trainer's CPUs; what is no quantity gets a sentence (the API server looks at it only in a pod)."""
    try:
        limit = group.template.spec.cpu_limit
    except ValueError as error:
        raise BadAssumptionError(f"the CPU limit of group {group.name}: {error}") from None
    if limit is not None and limit <= 0:
        raise BadAssumptionError(f"the CPU limit of group {group.name} is {limit:g}: use more than 0")
    return limit


def _workers(job: OmniLearnJob, assumed: Assumptions, speeds: Mapping[str, float]) -> list[SimulatedWorker]:
    room = job.spec.most + sum(assumed.add.values())
    if room > MOST_WORKERS:
        raise BadAssumptionError(f"these are {room} workers: use at most {MOST_WORKERS}")
    groups = [
        group.model_copy(update={"replicas": group.replicas + assumed.add.get(group.name, 0)})
        for group in job.spec.workers
    ]
    membership = job.spec.membership.model_copy(update={"max_workers": room})
    larger = job.spec.model_copy(update={"workers": groups, "membership": membership})
    return [_worker(job, group, index, assumed, speeds) for group, index in larger.first_workers()]


def _worker(
    job: OmniLearnJob, group: WorkerGroup, index: int, assumed: Assumptions, speeds: Mapping[str, float]
) -> SimulatedWorker:
    return SimulatedWorker(
        name=worker_name(job.metadata.name, group.name, index),
        speed=speeds[group.name],
        noise=assumed.noise,
        group=group.name,
        device=str(group.device),
        minimum=job.spec.batch.min_per_worker,
        maximum=job.spec.batch.max_per_worker,
        capacity=group.capacity,
        quota=_cpu_limit(group) if group.device is Device.CPU else None,
    )


def _events(
    job: OmniLearnJob, workers: Sequence[SimulatedWorker], assumed: Assumptions, speeds: Mapping[str, float]
) -> tuple[Event, ...]:
    events: list[Event] = []
    everybody = list(workers)
    for step, name in assumed.join:
        group = next(group for group in job.spec.workers if group.name == name)
        index = sum(worker.group == name for worker in everybody)
        joiner = _worker(job, group, index, assumed, speeds)
        everybody.append(replace(joiner, fixed_seconds=workers[0].fixed_seconds))
        events.append(Joins(When(step=step), everybody[-1]))
    for changes, told in ((assumed.slow, False), (assumed.resize, True)):
        for step, name, factor in changes:
            events.append(SpeedChange(When(step=step), _full_name(job, everybody, name), factor, told))
    for step, name in assumed.lose:
        events.append(Leaves(When(step=step), _full_name(job, everybody, name)))
    late = next((event for event in events if (event.when.step or 0) >= assumed.steps), None)
    if late is not None:
        raise BadAssumptionError(
            f"something is to happen at step {late.when.step}, but the run ends at step {assumed.steps}: raise --steps"
        )
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
