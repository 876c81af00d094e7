"""Auto in a job: it switches at a step boundary on all members alike, and no sample is lost or used twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import SGD, Optimizer
from torch.optim.lr_scheduler import StepLR

from crew import Crew, Script, Worker, await_joiner, values
from local_steps import gradients, load, mean
from omnilearn_coordinator import probe
from omnilearn_coordinator.settings import JobSettings
from omnilearn_core.api.messages import WorkerReport
from omnilearn_core.api.strategy import LocalSGD, LocalSteps, Strategy, StrategyType
from omnilearn_core.simulate.strategies import Question
from omnilearn_runtime import Session, probing
from omnilearn_runtime.buckets import Buckets
from omnilearn_runtime.group import Group
from omnilearn_runtime.link import RefusedError
from omnilearn_runtime.strategies.hierarchical import HierarchicalLearner
from omnilearn_runtime.strategies.learner import Learner
from omnilearn_runtime.strategies.local import LocalLearner
from plain import Recipe, as_script, distance, flat, global_batches, samples, train

BATCH = 8
SWITCH = 6
"""The step of a generation before which its members wait for the choice."""


def without_momentum(parameters: Iterable[Parameter]) -> Optimizer:
    return SGD(parameters, lr=0.05)


RECIPE = Recipe(dataset=samples(76), epochs=3, batch=BATCH)
AUTO = Strategy(type=StrategyType.AUTO)


def by_shares(interval: int) -> Strategy:
    return Strategy(
        type=StrategyType.LOCAL_SGD, local_sgd=LocalSGD(steps=LocalSteps.SHARES, interval=interval, batch=1)
    )


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Callable[[float, float], None]:
    """Let exchanges take so many seconds, over all members and inside of a group."""
    monkeypatch.setattr(probe, "_SETTLED_REPORTS", 0.0)

    def slow(seconds: float, inside: float) -> None:
        def measure(self: probing.Prober, group: Group, buckets: Buckets) -> None:
            # As it is, and then as it would be on another network.
            measured(self, group, buckets)
            self._shortest = probing.Exchange(seconds, inside, group.id)

        def question(settings: JobSettings, reports: Sequence[WorkerReport]) -> Question:
            # Of what else was measured, nothing is that of such a network.
            times = {"compute_seconds": 0.1, "reduce_seconds": seconds}
            return asked(settings, [each.model_copy(update=times) for each in reports])

        measured, asked = probing.Prober._measure, probe.question_of
        monkeypatch.setattr(probing.Prober, "_measure", measure)
        monkeypatch.setattr(probe, "question_of", question)

    return slow


@dataclass
class Course:
    """By which learner each step was committed."""

    learners: dict[int, set[str]] = field(default_factory=dict)

    def note(self, session: Session) -> None:
        self.learners.setdefault(session.step_number, set()).add(type(session._rounds.learner).__name__)


def switching(course: Course, on_batch: Callable[[Session, Worker], object] = lambda *_: None) -> Script:
    """Return a script that gives Auto the time to choose: steps take milliseconds here."""

    def wait(session: Session, me: Worker) -> None:
        course.note(session)
        entered = session._membership.entered
        # By then all has been measured, and is worth a report.
        if entered is not None and entered.choice is None and session._rounds.prober._steps >= SWITCH:
            await_joiner(session)
        on_batch(session, me)

    return as_script(RECIPE, wait)


def play(script: Script, faults: Sequence[str], groups: str = "w", strategy: Strategy = AUTO) -> list[Worker]:
    with Crew(script, len(faults), batch=BATCH, strategy=strategy, start_wait=0.2, tail_percent=0) as crew:
        crew.groups = groups
        for number, each in enumerate(faults):
            crew.start(number, each)
        return crew.wait()


def check(workers: Sequence[Worker]) -> Tensor:
    """Return the model that all who came to the end have; every sample must have been used once in each epoch."""
    finished = [worker for worker in workers if worker.error is None]
    assert not [each.error for each in workers if not isinstance(each.error, SystemExit | RefusedError | None)]
    assert finished
    for worker in finished:
        assert worker.session is not None
        progress = worker.session._rounds.progress
        assert (progress.samples, progress.step) == (RECIPE.epochs * len(RECIPE.dataset), RECIPE.steps)
        assert (progress.lost, progress.doubled, progress.skipped) == (0, 0, 0)
        assert torch.equal(worker.value, finished[0].value)
    value: Tensor = finished[0].value
    return value


def reference(recipe: Recipe, workers: int, first: int, interval: int) -> Tensor:
    """Return plain SGD for ``first`` steps, then local steps with equal shares, merged every ``interval`` of them."""
    made = [recipe.parts() for _ in range(workers)]
    step, merged = 0, [each.detach().clone() for each in made[0][0].parameters()]
    for epoch in range(recipe.epochs):
        left = global_batches(len(recipe.dataset), epoch, recipe.batch)
        while left:
            count = 1 if step < first else interval
            # A short batch is merged by itself.
            whole = [each for each in left[:count] if len(each) == recipe.batch]
            count = len(whole) or 1
            now, left = left[:count], left[count:]
            ways: list[list[Tensor]] = []
            weights: list[float] = []
            for rank, (model, optimizer, _) in enumerate(made):
                load(model, merged)
                for batch in now:
                    share = len(batch) // workers
                    gradients(recipe, model, batch if step < first else batch[rank * share : (rank + 1) * share])
                    optimizer.step()
                ways.append([each.detach().clone() for each in model.parameters()])
                weights.append(1.0)
            merged = mean(ways, weights)
            for _, _, scheduler in made:
                for _ in now if scheduler is not None else ():
                    scheduler.step()
            step += len(now)
    load(made[0][0], merged)
    return flat(made[0][0])


# Local steps that are shares


def test_one_worker_whose_local_steps_are_its_shares_is_plain_sgd() -> None:
    workers = play(as_script(RECIPE), [""], strategy=by_shares(4))
    assert distance(check(workers), train(RECIPE)) < 1e-10


def test_shares_merged_after_every_global_batch_are_plain_sgd_without_momentum() -> None:
    recipe = Recipe(dataset=RECIPE.dataset, optimizer=without_momentum, epochs=3, batch=BATCH)
    workers = play(as_script(recipe), ["", "", ""], strategy=by_shares(1))
    assert distance(check(workers), train(recipe)) < 1e-10


def test_shares_merged_every_few_global_batches_are_what_a_plain_loop_gives() -> None:
    recipe = Recipe(
        dataset=RECIPE.dataset, scheduler=lambda optimizer: StepLR(optimizer, 5, 0.7), epochs=3, batch=BATCH
    )
    workers = play(as_script(recipe), ["", ""], strategy=by_shares(4))
    assert distance(check(workers), reference(recipe, 2, 0, 4)) < 1e-10


# Auto


def test_on_a_slow_network_it_goes_on_with_local_steps_from_the_model_that_it_has(
    network: Callable[[float, float], None],
) -> None:
    network(0.3, 0.3)
    course = Course()
    workers = play(switching(course), ["", ""])
    value = check(workers)
    first = min(step for step, learners in course.learners.items() if "LocalLearner" in learners)
    assert SWITCH < first <= SWITCH + 2
    assert all(len(learners) == 1 for learners in course.learners.values())
    learner = workers[0].session._rounds.learner  # type: ignore[union-attr]
    assert isinstance(learner, LocalLearner)
    assert distance(value, reference(RECIPE, 2, first, learner.steps)) < 1e-10


def test_on_a_fast_network_it_stays_synchronous_and_says_so_once(network: Callable[[float, float], None]) -> None:
    network(0.001, 0.001)
    with Crew(switching(Course()), 3, batch=BATCH, strategy=AUTO, start_wait=0.2, tail_percent=0) as crew:
        for number in range(3):
            crew.start(number)
        workers = crew.wait()
        told = [each.sentence for each in crew.happenings if each.kind == "chosen"]
    assert len(told) == 1
    assert told[0].startswith("Synchronous, because an exchange takes 1% of a step")
    assert all(type(each.session._rounds.learner) is Learner for each in workers)  # type: ignore[union-attr]
    assert distance(check(workers), train(RECIPE)) < 1e-10


def test_groups_that_are_fast_inside_train_in_step_and_merge(network: Callable[[float, float], None]) -> None:
    network(0.1, 0.001)
    workers = play(switching(Course()), ["", "", "", ""], "aabb")
    check(workers)
    assert all(isinstance(each.session._rounds.learner, HierarchicalLearner) for each in workers)  # type: ignore[union-attr]


POINTS = ("computing", "first-bucket", "before-update", "after-update", "switching", "roll-call", "entered", "reducing")


@pytest.mark.parametrize("groups", ["w", "aab"], ids=["local", "groups"])
@pytest.mark.parametrize("point", POINTS)
def test_a_worker_that_dies_around_the_switch_costs_nothing(
    network: Callable[[float, float], None], point: str, groups: str
) -> None:
    network(0.1 if groups == "aab" else 0.3, 0.001 if groups == "aab" else 0.3)
    workers = play(switching(Course()), ["", f"{point}@{SWITCH}:kill", ""], groups)
    check(workers)
    kind = HierarchicalLearner if groups == "aab" else LocalLearner
    ended = [each for each in workers if each.error is None]
    assert len(ended) == 2
    # A group of one each has nobody to be in step with: what is chosen then may be either.
    assert all(isinstance(each.session._rounds.learner, kind | LocalLearner) for each in ended)  # type: ignore[union-attr]


def test_a_worker_that_joins_after_the_switch_begins_with_what_was_chosen(
    network: Callable[[float, float], None],
) -> None:
    network(0.3, 0.3)

    def on_batch(session: Session, me: Worker) -> None:
        group = session._membership.current
        if session.step_number < SWITCH + 8 or group is None or group.size > 2:
            return
        if me.name == "job-w-0" and len(crew.workers) == 2:
            crew.start(2)
        await_joiner(session)

    with Crew(switching(Course(), on_batch), 2, batch=BATCH, strategy=AUTO, start_wait=0.2, tail_percent=0) as crew:
        crew.start(0)
        crew.start(1)
        workers = crew.wait()
    assert len(values(workers)) == 3
    check(workers)
    assert all(isinstance(each.session._rounds.learner, LocalLearner) for each in workers)  # type: ignore[union-attr]


def test_a_job_whose_workers_all_died_after_the_switch_goes_on_as_it_was(
    network: Callable[[float, float], None], tmp_path: Path
) -> None:
    network(0.3, 0.3)
    with Crew(switching(Course()), 2, batch=BATCH, strategy=AUTO, start_wait=0.2, tail_percent=0) as crew:
        crew.checkpoints = tmp_path
        for number in range(2):
            crew.start(number, f"computing@{SWITCH + 3}:kill")
        assert all(worker.error is not None for worker in crew.wait())
        chosen = crew.coordinator.snapshot().choice
    assert chosen is not None
    course = Course()
    with Crew(switching(course), 3, batch=BATCH, strategy=AUTO, start_wait=0.2, tail_percent=0) as crew:
        crew.checkpoints = tmp_path
        crew.coordinator.remember(chosen)
        for number in range(3):
            crew.start(number)
        check(crew.wait())
    assert min(course.learners) >= SWITCH
    assert set().union(*course.learners.values()) == {"LocalLearner"}
