"""What the end of a process means, and how a run ends."""

import signal
from dataclasses import replace

import pytest

from omnilearn_cli.local.ending import Bounds, Standing, State, Verdict, end_of
from omnilearn_cli.local.restarts import meaning_of, pause_after, words_for
from omnilearn_core.endings import Meaning

BOUNDS = Bounds(startup_seconds=60.0, run_seconds=None, failures=3)
RUNNING = Standing(seconds=10.0, started=True, running=2, coming=0, failures=0)
COMPLETE = Verdict(complete=True, why="all samples are committed")


@pytest.mark.parametrize(
    ("code", "on_purpose", "over", "meaning"),
    [
        (0, False, True, Meaning.FINISHED),
        (1, False, True, Meaning.FAILED),
        (0, False, False, Meaning.FAILED),
        (1, False, False, Meaning.FAILED),
        (-signal.SIGKILL, False, False, Meaning.FAILED),
        (-signal.SIGKILL, True, False, Meaning.PREEMPTED),
        (0, True, False, Meaning.PREEMPTED),
        (143, False, False, Meaning.PREEMPTED),
        (-signal.SIGTERM, False, False, Meaning.PREEMPTED),
    ],
)
def test_an_exit_is_a_failure_unless_it_was_wanted(code: int, on_purpose: bool, over: bool, meaning: Meaning) -> None:
    assert meaning_of(code, on_purpose=on_purpose, over=over) is meaning


def test_the_wait_before_a_restart_doubles_up_to_ten_seconds() -> None:
    assert [pause_after(endings) for endings in (1, 2, 3, 6, 1000)] == [0.5, 1.0, 2.0, 10.0, 10.0]


def test_an_exit_is_said_in_words() -> None:
    assert words_for(3) == "exited with 3"
    assert words_for(-9) == "was ended by SIGKILL"
    assert words_for(-99) == "was ended by signal 99"


def test_a_run_goes_on_while_workers_run_or_come_back() -> None:
    assert end_of(RUNNING, BOUNDS) is None
    assert end_of(replace(RUNNING, running=0, coming=1), BOUNDS) is None
    assert end_of(replace(RUNNING, failures=3), BOUNDS) is None


@pytest.mark.parametrize(
    ("standing", "bounds", "why"),
    [
        (replace(RUNNING, verdict=Verdict(complete=False, why="the script raised")), BOUNDS, "the script raised"),
        (RUNNING, replace(BOUNDS, run_seconds=5.0), "not complete after 5 s"),
        (replace(RUNNING, failures=4, last_failure="w exited with 1"), BOUNDS, "4 failures of workers are more than"),
        (replace(RUNNING, running=0), BOUNDS, "all workers are gone, and none comes back"),
        (replace(RUNNING, started=False, seconds=60.0, words="the last lines"), BOUNDS, "within 60 s (startupDeadline"),
        (replace(RUNNING, verdict=COMPLETE, verdict_age=300.0), BOUNDS, "after 300 s workers have not exited"),
        (replace(RUNNING, verdict=COMPLETE, running=0, late_failure="w exited with 1"), BOUNDS, "but w exited with 1"),
    ],
)
def test_a_run_fails_with_a_sentence(standing: Standing, bounds: Bounds, why: str) -> None:
    end = end_of(standing, bounds)
    assert end is not None
    assert end.state is State.FAILED
    assert why in end.why


def test_a_job_is_complete_when_its_workers_have_exited() -> None:
    assert end_of(replace(RUNNING, verdict=COMPLETE), BOUNDS) is None
    end = end_of(replace(RUNNING, verdict=COMPLETE, running=0, failures=2), BOUNDS)
    assert end is not None
    assert end.state is State.COMPLETE
