"""Members that lie in their reports, within what a message may hold: plans stay plans, and a status can be written."""

from __future__ import annotations

import asyncio
import json
import random
from datetime import UTC, datetime
from typing import Any

import pytest

from mutations import near
from omnilearn_coordinator.credentials import Tokens
from omnilearn_coordinator.service import Coordinator
from omnilearn_coordinator.settings import settings_of
from omnilearn_core.api.frames import to_frame
from omnilearn_core.api.job import LawName
from omnilearn_core.api.messages import (
    Built,
    Entered,
    FromWorker,
    GenerationId,
    Join,
    MemberAddress,
    Plan,
    WorkerReport,
)
from omnilearn_core.control.laws import LAWS
from omnilearn_operator.book import opened
from omnilearn_operator.reconcile import decide
from omnilearn_operator.status import Seen, patch_of
from operations import CREATED, job_of, pod
from situations import times

_SECONDS = (0.0, 5e-324, 1e-300, 1e-12, 1e-9, 1e-3, 0.1, 0.5, 1e3, 1e9)
_COUNTS = (0, 1, 2, 31, 32, 33, 16777216)
_NUMBERS = (0, 1, 2**31, 2**53)
_ROUNDS = times(40)


def wild_report(rng: random.Random, worker: str, plan: Plan) -> WorkerReport:
    """Return a report of the right plan with whatever a message may hold."""
    return WorkerReport(
        worker=worker,
        generation=plan.generation,
        plan_version=plan.version,
        step=rng.choice(_NUMBERS),
        epoch=rng.choice(_NUMBERS),
        samples=rng.choice(_NUMBERS),
        total_samples=rng.choice((None, *_NUMBERS)),
        share=rng.choice((plan.shares[worker], plan.shares[worker], *_COUNTS)),
        steps=rng.choice((1, 1, 0, 1000000)),
        compute_seconds=rng.choice(_SECONDS),
        tail_samples=float(rng.choice(_COUNTS)),
        tail_seconds=rng.choice(_SECONDS),
        load_seconds=rng.choice(_SECONDS),
        step_seconds=rng.choice(_SECONDS),
        loss=rng.choice((None, 0.0, -1.7e308, 1.7e308, 5e-324)),
        cpu_quota=rng.choice((None, 5e-324, 1e-9, 1.0, 65536.0)),
        memory_bound=rng.choice((None, *_COUNTS)),
        in_pieces=rng.random() < 0.5,
        skipped=rng.choice(_NUMBERS),
        logged={f"n{rng.randrange(1000)}": rng.choice((0.0, 1.7e308, -5e-324)) for _ in range(rng.randrange(65))},
    )


class Liars:
    """A job of two members without sockets."""

    def __init__(self, law: str, term: int = 1) -> None:
        self.job = job_of(batch={"global": 64, "law": law, "minPerWorker": 1})
        self.now = 100.0
        self.coordinator = Coordinator(settings_of(self.job), Tokens(), term=term, clock=lambda: self.now)
        self._driver = self.coordinator._driver
        for number, worker in enumerate(self.workers):
            self._driver.connected(worker, number, 0, self.now)

    workers = ("job-a-0", "job-a-1")

    def says(self, number: int, message: FromWorker) -> None:
        self._driver.said(self.workers[number], number, message, self.now)

    def looks(self, seconds: float = 0.1) -> None:
        self.now += seconds
        self._driver.look(self.now)

    def train(self) -> Plan:
        for number in (0, 1):
            self.says(number, Join(device="cpu", address="10.0.0.1", port=4000))
        self.looks()
        plan = self.plan
        for number in (0, 1):
            self.says(number, Built(generation=plan.generation))
            self.says(number, Entered(generation=plan.generation, round=0))
        self.looks()
        return plan

    @property
    def plan(self) -> Plan:
        plan = self._driver.control.plan
        assert plan is not None
        return plan

    def check(self) -> None:
        """Raise an error unless the plan is one, and a status can be written that another operator can read."""
        plan, view = self.plan, self.coordinator.snapshot()
        assert set(plan.shares) == set(self.workers)
        assert Plan.model_validate(plan.model_dump()) == plan
        assert len(view.logged) <= 64
        decision = decide(Seen(self.job, (pod(0), pod(1)), view, datetime.now(UTC)), opened(self.job, CREATED), "ca")
        assert decision.status is not None
        written = json.dumps(patch_of(None, decision.status), allow_nan=False)
        assert len(written) < 20_000
        type(decision.status).from_manifest(decision.status.to_manifest())


def run(scene: Any) -> None:
    async def play() -> None:
        scene()

    asyncio.run(play())


@pytest.mark.parametrize("law", list(LawName))
def test_whatever_members_report_a_plan_is_a_plan_and_a_status_can_be_written(law: LawName) -> None:
    def scene() -> None:
        rng, liars = random.Random(str(law)), Liars(law)
        liars.train()
        for _ in range(_ROUNDS):
            for number, worker in enumerate(liars.workers):
                liars.says(number, wild_report(rng, worker, liars.plan))
            liars.looks(rng.choice((0.1, 3.0)))
            liars.check()

    run(scene)


@pytest.mark.parametrize("law", list(LawName))
def test_whatever_a_worker_hands_back_as_the_laws_state_it_goes_on_or_starts_afresh(law: LawName) -> None:
    def scene() -> None:
        honest = Liars(law)
        plan = honest.train()
        for number, worker in enumerate(honest.workers):
            report = wild_report(random.Random(number), worker, plan)
            steady = {"compute_seconds": 0.1, "share": plan.shares[worker], "steps": 5, "step": 1, "epoch": 0}
            honest.says(number, report.model_copy(update=steady))
        honest.looks()
        state = honest._driver.control.state_to_keep() or "{}"
        for state_back in near([json.loads(state)], 7, times(25)):
            liars = Liars(law, term=2)
            adopt(liars, honest.plan, json.dumps(state_back))
            for _ in range(4):
                for number, worker in enumerate(liars.workers):
                    steady = {"compute_seconds": 0.1, "share": liars.plan.shares[worker], "steps": 5, "epoch": 0}
                    liars.says(number, wild_report(random.Random(3), worker, liars.plan).model_copy(update=steady))
                liars.looks()
                liars.check()

    assert law in LAWS
    run(scene)


def adopt(liars: Liars, plan: Plan, law_state: str) -> None:
    """Have the members come back to a new coordinator with a plan and the law's state."""
    generation = GenerationId(number=plan.generation.number, nonce="earlier")
    members = [
        MemberAddress(worker=worker, attempt=0, device="cpu", address="10.0.0.1", port=4000) for worker in liars.workers
    ]
    back = Join(
        device="cpu",
        address="10.0.0.1",
        port=4000,
        generation=generation,
        last_generation=generation.number,
        round=3,
        members=members,
        plan=plan.model_copy(update={"generation": generation}),
        law_state=law_state,
    )
    assert len(to_frame(back)) < 100_000
    for number in (0, 1):
        liars.says(number, back)
    liars.looks()
