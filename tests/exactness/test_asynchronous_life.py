"""The life of an asynchronous job beside its arithmetic: joiners, snapshots, epochs, checkpoints, refusals."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD
from torch.optim.lr_scheduler import StepLR

from arrivals import BATCH, RECIPE, SHORT, Journal, Replay, Unlike, as_asynchronous_script, check, gently
from crew import Crew, Script, Worker, values
from omnilearn_core.api.messages import WorkerReport
from omnilearn_core.api.strategy import Asynchronous, GradientType, Staleness, Strategy, StrategyType
from omnilearn_runtime import Session, UnsuitableError
from omnilearn_runtime.asynchronous import standby
from omnilearn_runtime.membership import Membership
from omnilearn_runtime.reporting import Reporter
from omnilearn_runtime.timing import Delays
from plain import distance, flat, loss_of, mlp, samples, with_values

PLAIN = Asynchronous()


def crew_of(script: Script, count: int, options: Asynchronous = PLAIN, **settings: Any) -> Crew:
    chosen = Strategy(type=StrategyType.ASYNCHRONOUS, asynchronous=options)
    return Crew(script, count, batch=BATCH, strategy=chosen, tail_percent=0, **{"start_wait": 0.5, **settings})


def run(script: Script, count: int, options: Asynchronous = PLAIN) -> list[Worker]:
    with crew_of(script, count, options) as crew:
        for number in range(count):
            crew.start(number)
        return crew.wait()


def members(session: Session) -> int:
    group = session._membership.current
    return 0 if group is None else group.size


@pytest.mark.parametrize("staleness", [Staleness.UNBOUNDED, Staleness.RINGMASTER])
def test_a_joiner_is_taken_in_while_the_others_compute(staleness: Staleness) -> None:
    journal, lock, late = Journal(), threading.Lock(), [True]

    def on_batch(session: Session, me: Worker) -> None:
        with lock:
            due = late and session.step_number >= 20
            if due:
                late.clear()
        if due:
            crew.start(2)
        if session.step_number >= 40 and me.name != "job-w-2":  # it should not come too late
            session._membership.wait(lambda: session._membership.newest.generation.number > 1, 10.0)  # type: ignore[union-attr]
        me.notes.setdefault("sizes", set()).add(members(session))

    options = Asynchronous(staleness=staleness, bound=3 if staleness.has_bound else None)
    with crew_of(as_asynchronous_script(RECIPE, journal, on_batch), 2, options) as crew:
        crew.start(0), crew.start(1)
        workers = crew.wait()
        while len(workers) < 3:
            workers = crew.wait()
    assert distance(check(workers), Replay(RECIPE, options).play(journal.events)) < 1e-10
    assert 3 in workers[0].notes["sizes"]
    assert any(event[:2] == ("arrived", "job-w-2") for event in journal.events)


def test_who_takes_over_goes_on_from_the_snapshot_that_the_server_gave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standby, "_EVERY_SECONDS", 0.02)
    journal = Journal()
    with crew_of(as_asynchronous_script(SHORT, journal, Unlike()), 3) as crew:
        for number in range(3):
            crew.start(number, "applied@30:kill" if number == 0 else "")
        workers = crew.wait()
    assert distance(check(workers, SHORT), Replay(SHORT, PLAIN).play(journal.events)) < 1e-10
    began = [event[2] for event in journal.events if event[0] == "began"]
    assert len(began) == 3
    assert began[1] > 0


def test_epochs_evaluations_and_schedules_are_as_in_one_process() -> None:
    dataset = samples(44)

    def script(session: Session, me: Worker) -> Any:
        model = mlp()
        optimizer = gently(model.parameters())
        session.manage(model, optimizer, scheduler=StepLR(optimizer, 3, 0.5))
        found = []
        for epoch in session.epochs(3):
            for x, y in session.batches(dataset):
                Unlike(epoch)(session, me)
                session.step(loss_of(model, x, y))
            found.append(session.evaluate(dataset, lambda x, y: {"loss": loss_of(model, x, y) * len(x)})["loss"])
        return flat(model), found, optimizer.param_groups[0]["lr"], session.step_number

    results = values(run(script, 3))
    for trained, found, rate, steps in results:
        assert torch.equal(trained, results[0][0])
        assert found == results[0][1]
        assert len(found) == 3
        # Eighteen global batches, however many updates there were.
        assert rate == pytest.approx(0.02 * 0.5**6)
        assert steps == results[0][3] > 18


def test_a_pass_that_all_leave_early_ends_for_all() -> None:
    def script(session: Session, _: Worker) -> Any:
        model = mlp()
        session.manage(model, gently(model.parameters()))
        for number, (x, y) in enumerate(session.batches(samples(400))):
            session.step(loss_of(model, x, y))
            if number == 5:
                break
        sums = session.evaluate(samples(20), lambda x, y: {"count": torch.tensor(len(x))})
        return flat(model), sums["count"]

    (one, count), (other, _), _ = values(run(script, 3))
    assert torch.equal(one, other)
    assert int(count) == 20


def test_running_statistics_are_followed() -> None:
    def script(session: Session, _: Worker) -> Any:
        model = with_values(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)))
        session.manage(model, gently(model.parameters()))
        for x, y in session.batches(samples(64), epochs=2):
            session.step(loss_of(model, x, y))
        norm: Any = model[1]
        return norm.running_mean, int(norm.num_batches_tracked), session.step_number

    for mean, count, steps in values(run(script, 2)):
        assert float(mean.abs().max()) > 0
        assert count == steps


@pytest.mark.parametrize("gradients", [GradientType.BFLOAT16, GradientType.FLOAT16])
def test_gradients_in_half_precision_end_close_to_those_in_full(gradients: GradientType) -> None:
    options, journal = Asynchronous(gradients=gradients), Journal()
    workers = run(as_asynchronous_script(SHORT, journal), 2, options)
    difference = distance(check(workers, SHORT), Replay(SHORT, options).play(journal.events))
    assert 0 < difference < 0.01


@pytest.mark.parametrize("staleness", list(Staleness))
def test_staleness_as_reported_is_staleness_as_counted(staleness: Staleness, monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, list[tuple[float | None, int]]] = {}
    windows: dict[int, list[list[int]]] = {}
    send, take = Membership.send, Delays.take

    def sending(membership: Membership, message: Any) -> None:
        if isinstance(message, WorkerReport) and message.staleness is not None:
            told.setdefault(message.worker, []).append((message.staleness, message.most_stale))
        send(membership, message)

    def taking(delays: Delays) -> tuple[float | None, int]:
        windows.setdefault(id(delays), []).append(list(delays._found))
        return take(delays)

    monkeypatch.setattr(Membership, "send", sending)
    monkeypatch.setattr(Delays, "take", taking)
    monkeypatch.setattr(Reporter, "_rest", lambda reporter: not reporter._stop.wait(0.05))  # the job is a short one
    journal = Journal()
    options = Asynchronous(staleness=staleness, bound=2 if staleness.has_bound else None)
    workers = run(as_asynchronous_script(RECIPE, journal, Unlike()), 3, options)
    replay = Replay(RECIPE, options)
    assert distance(check(workers), replay.play(journal.events)) < 1e-10
    counted = replay.delays
    assert sum(map(len, counted.values())) > 100
    for worker in workers:
        assert worker.session is not None
        found = [each for each in windows.get(id(worker.session._reporter._delays), []) if each]
        so_far = [delay for each in found for delay in each]
        assert so_far == counted[worker.name][: len(so_far)]
        assert told.get(worker.name, []) == [(sum(each) / len(each), max(each)) for each in found]
    assert told


def test_a_job_whose_workers_all_died_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    journal = Journal()
    for faults in ({0: "pushing@25:kill", 1: "pushing@25:kill"}, {0: "", 1: ""}):
        with crew_of(as_asynchronous_script(SHORT, journal), 2) as crew:
            crew.checkpoints = tmp_path
            for number, each in faults.items():
                crew.start(number, each)
            workers = crew.wait()
    assert distance(check(workers, SHORT), Replay(SHORT, PLAIN).play(journal.events)) < 1e-10
    assert max(event[2] for event in journal.events if event[0] == "began" and event[1] == 0) > 5


def hopeless(**options: Any) -> Script:
    def script(session: Session, _: Worker) -> None:
        model = mlp()
        session.manage(model, SGD(model.parameters(), lr=0.1), **options)

    return script


@pytest.mark.parametrize("options", [{"before_update": lambda: None}, {"scaler": torch.amp.GradScaler("cpu")}])
def test_what_a_server_cannot_do_is_refused_with_a_sentence(options: dict[str, Any]) -> None:
    (worker,) = run(hopeless(**options), 1)
    assert isinstance(worker.error, UnsuitableError)
    assert "cannot be used with the strategy Asynchronous" in str(worker.error)


def test_a_gradient_that_is_not_finite_is_skipped_and_counted() -> None:
    def script(session: Session, me: Worker) -> Tensor:
        model = mlp()
        session.manage(model, gently(model.parameters()))
        for number, (x, y) in enumerate(session.batches(samples(80))):
            bad = number == 2 and me.name.endswith("1")
            session.step(loss_of(model, x, y) * (float("nan") if bad else 1.0))
        return flat(model)

    workers = run(script, 2)
    for worker in workers:
        assert worker.session is not None
        progress = worker.session._rounds.progress
        assert (progress.skipped, progress.samples, progress.lost, progress.doubled) == (1, 80, 0, 0)
        assert bool(torch.isfinite(worker.value).all())


@pytest.mark.parametrize("staleness", [Staleness.BOUNDED, Staleness.DELAY_ADAPTIVE, Staleness.RINGLEADER])
@pytest.mark.parametrize("struck", [0, 2])
def test_every_policy_survives_a_loss(staleness: Staleness, struck: int) -> None:
    options = Asynchronous(staleness=staleness, bound=2 if staleness.has_bound else None)
    with crew_of(as_asynchronous_script(SHORT, Journal(), Unlike()), 3, options) as crew:
        for number in range(3):
            crew.start(number, "pushing@20:kill" if number == struck else "")
        check(crew.wait(), SHORT)
