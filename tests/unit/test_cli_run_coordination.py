"""The coordinator in the launcher's process, and what the launcher sees of it."""

import asyncio
from dataclasses import replace
from pathlib import Path

from omnilearn_cli.local.coordination import CoordinatorSeat, carried_on, settings_with, view_of
from omnilearn_cli.local.events import Event, EventLog
from omnilearn_cli.local.run import free_port
from omnilearn_cli.local.view import View
from omnilearn_coordinator.membership.state import Outcome
from omnilearn_coordinator.view import JobView, MemberState, MemberView, Phase, TimedDecision
from omnilearn_core.api.job import OmniLearnJob
from omnilearn_core.api.messages import Done, GenerationId

JOB = OmniLearnJob.from_manifest(
    {
        "apiVersion": "omnilearn.dev/v1alpha1",
        "kind": "OmniLearnJob",
        "metadata": {"name": "job"},
        "spec": {
            "batch": {"global": 8},
            "workers": [{"name": "w", "capacity": 7, "template": {"spec": {"containers": [{"name": "trainer"}]}}}],
        },
    }
)
SEEN = JobView(
    job="job",
    phase=Phase.RUNNING,
    generation=3,
    plan=1,
    members=(MemberView("job-w-0", "cpu", 0, MemberState.TRAINING, 8, 16.0, 0.5, 0.2, 0.1, 0.1, 0.7),),
    joiners=(),
    waiting=None,
    regroups=2,
    plan_changes=0,
    bad_requests={},
    decisions=(TimedDecision(1.0, "why not"),),
    outcome=None,
    step=5,
    samples=40,
)


def test_the_launcher_sees_what_the_coordinator_knows() -> None:
    view = view_of(SEEN)
    assert (view.phase, view.generation, view.step, view.regroups) == ("Running", 3, 5, 2)
    assert view.decisions == ((1.0, "why not"),)
    member = view.members[0]
    assert (member.share, member.compute_seconds, member.load_seconds) == (8, 0.3, 0.2)


def test_what_a_member_took_of_the_tail_is_computing_and_stands_beside_its_share() -> None:
    (member,) = view_of(replace(SEEN, members=(replace(SEEN.members[0], tail_samples=2.6, tail_seconds=0.25),))).members
    assert (member.share, member.beyond, member.compute_seconds) == (8, 3, 0.55)


def test_a_generation_counts_when_it_was_entered() -> None:
    view = view_of(replace(SEEN, phase=Phase.WAITING, waiting="1 of the 2 needed are there"))
    assert (view.generation, view.members) == (None, ())
    assert view.phase == "Waiting: 1 of the 2 needed are there"


def test_the_end_of_a_job_comes_with_what_the_members_said() -> None:
    done = Done(
        generation=GenerationId(number=3, nonce="ab"),
        round=5,
        steps=5,
        samples=40,
        lost=0,
        doubled=0,
        parameter_hash="x",
    )
    view = view_of(replace(SEEN, phase=Phase.COMPLETE, outcome=Outcome(True, "all done", {"job-w-0": done})))
    assert view.verdict is not None
    assert view.verdict.complete
    assert view.done["job-w-0"].parameter_hash == "x"


def test_workers_that_are_added_have_a_place_but_are_not_waited_for() -> None:
    settings = settings_with(JOB, ["job-w-1"])
    assert (settings.most, settings.expected) == (2, 1)
    assert settings.group_of("job-w-1").capacity == 7


def test_progress_is_not_forgotten_with_a_coordinator() -> None:
    last = View(generation=3, step=5, samples=40, loss=0.5)
    assert carried_on(View(phase="Waiting"), last) == replace(last, phase="Waiting")
    assert carried_on(View(step=6, samples=48), last).step == 6


def test_a_coordinator_can_be_stopped_and_another_started_at_the_same_port(tmp_path: Path) -> None:
    told: list[Event] = []
    events = EventLog(tmp_path / "events.jsonl", lambda: 0.0, told.append)
    seat = CoordinatorSeat(JOB, free_port(0), (), events)

    async def scene() -> list[bool]:
        found = []
        for _ in range(2):
            await seat.start()
            found.append(seat.running)
            seat.view()
            await seat.stop()
            found.append(seat.running)
        return found

    assert asyncio.run(scene()) == [True, False, True, False]
    assert seat.view().phase == "Without a coordinator"
    events.close()
