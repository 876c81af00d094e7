"""A whole run with stand-ins: workers that only print, sleep or fail, and a coordinator that says what a test wants."""

import json
import socket
import time
from pathlib import Path

import pytest

from local_runs import ENTERED, Run, job_of
from omnilearn_cli.local.ending import State, Verdict
from omnilearn_cli.local.faults import Do, Fault, Moment
from omnilearn_cli.local.run import free_port
from omnilearn_cli.local.view import View
from omnilearn_cli.local.workers import CannotStartError


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_a_job_is_complete_when_its_workers_exit_after_the_end(run: Run) -> None:
    script = "import os; print('I am', os.environ['OMNILEARN_WORKER'], open(os.environ['OMNILEARN_TOKEN_FILE']).read())"
    report = run(job_of(script), run.complete_when(lambda: run.log(0).exists()))
    assert (report.state, report.why) == (State.COMPLETE, "all samples are committed")
    assert "job-w-0 | I am job-w-0 job-w-0 0" in run.text.getvalue()
    assert run.log(0).read_text() == "I am job-w-0 job-w-0 0\n"
    written = json.loads((run.output / "report.json").read_text())
    assert written["parameterHash"] == {"job-w-0": "abc"}
    assert written["ledger"] == {"lost": 0, "doubled": 0, "agree": True}
    assert written["members"][0]["share"] == 8
    assert (run.output / "steps.jsonl").read_text() == ""


def test_a_worker_that_fails_is_started_again_until_there_were_too_many(run: Run) -> None:
    script = "import sys; print('what a pity'); sys.exit(3)"
    report = run(job_of(script, restart={"maxFailures": 1}), lambda: ENTERED)
    assert report.state is State.FAILED
    assert "2 failures of workers are more than restart.maxFailures allows, 1" in report.why
    assert "job-w-0 exited with 3" in report.why
    assert "what a pity" in report.why
    assert (report.failures, report.restarts) == (2, 1)
    assert run.log(1).exists()


def test_a_worker_that_ends_well_too_early_has_failed(run: Run) -> None:
    report = run(job_of("pass", restart={"maxFailures": 0}), lambda: ENTERED)
    assert "job-w-0 ended before the job was complete" in report.why


def test_a_worker_killed_by_a_fault_comes_back_and_counts_as_preempted(run: Run) -> None:
    script = "import os, time; time.sleep(60 if os.environ['OMNILEARN_ATTEMPT'] == '0' else 0.3)"
    kill = Fault(Moment(seconds=0.0), Do.KILL, "w-0")
    report = run(job_of(script, restart={"maxFailures": 0}), run.complete_when(lambda: run.log(1).exists()), kill)
    assert report.state is State.COMPLETE
    assert (report.preemptions, report.failures, report.restarts) == (1, 0, 1)
    sentences = [event.sentence for event in report.events]
    assert "kill job-w-0" in sentences
    assert "job-w-0 was ended by SIGKILL (preempted)" in sentences


def test_a_worker_that_stays_away_ends_the_job_if_it_was_the_last(run: Run) -> None:
    terminate = Fault(Moment(step=1), Do.TERMINATE, "w-0", stays_away=True)
    report = run(job_of("import time; time.sleep(60)"), lambda: ENTERED, terminate)
    assert "all workers are gone, and none comes back" in report.why


def test_a_frozen_worker_does_not_hold_up_the_end(run: Run) -> None:
    script = "import os, time; time.sleep(60 if os.environ['OMNILEARN_WORKER'].endswith('1') else 1)"
    freeze = Fault(Moment(seconds=0.0), Do.FREEZE, "w-1")
    began = time.monotonic()
    report = run(job_of(script, replicas=2), run.complete_when(lambda: time.monotonic() > began + 0.5), freeze)
    assert report.state is State.COMPLETE
    assert time.monotonic() - began < 10


def test_a_worker_is_added_and_a_coordinator_replaced_when_told(run: Run) -> None:
    faults = (
        Fault(Moment(seconds=0.0), Do.ADD, "w"),
        Fault(Moment(seconds=0.1), Do.STOP_COORDINATOR),
        Fault(Moment(seconds=0.3), Do.START_COORDINATOR),
    )
    came = run.log(0, "job-w-1")
    seen = run.complete_when(lambda: came.exists() and run.seat.starts == 2)
    report = run(job_of("import time; time.sleep(1.5)"), seen, *faults)
    assert report.state is State.COMPLETE
    assert [event.sentence for event in report.events if event.kind == "Fault"] == [
        "add w",
        "stopCoordinator",
        "startCoordinator",
    ]


def test_a_worker_that_fails_after_the_end_fails_the_run(run: Run) -> None:
    report = run(job_of("import time; time.sleep(0.2); raise SystemExit(4)"), run.complete_when(lambda: True))
    assert report.state is State.FAILED
    assert "all samples are committed, but job-w-0 exited with 4" in report.why


def test_a_job_that_never_begins_names_the_last_lines_of_a_worker(run: Run) -> None:
    script = "import time; print('waiting for Godot'); time.sleep(60)"
    report = run(job_of(script, startupDeadlineSeconds=1), View)
    assert report.state is State.FAILED
    assert "no generation was formed within 1 s (startupDeadlineSeconds)" in report.why
    assert "waiting for Godot" in report.why


def test_a_job_that_takes_too_long_is_ended(run: Run) -> None:
    report = run(job_of("import time; time.sleep(60)"), lambda: ENTERED, timeout=0.5)
    assert report.why == "the job was not complete after 0.5 s"


def test_a_script_that_fails_everywhere_ends_the_job(run: Run) -> None:
    failed = View(phase="Failed", verdict=Verdict(complete=False, why="job-w-0: NameError"))
    report = run(job_of("import time; time.sleep(60)"), lambda: failed)
    assert (report.state, report.why) == (State.FAILED, "job-w-0: NameError")


def test_traces_become_steps_a_picture_and_an_audit(run: Run) -> None:
    line = {
        "round": 1, "step": 1, "kind": "step", "epoch": 0, "time": 1.0, "generation": "1.ab", "members": ["job-w-0"],
        "plan": 1, "interval": [0, 8], "mine": [[0, 8]], "samples": 8, "weight": 8.0, "loss": 1.0,
        "seconds": {"step": 2.0, "compute": 0.5, "load": 0.5, "reduce": 0.5, "wait": 0.5},
    }  # fmt: skip
    script = f"import os; print({json.dumps(line)!r}, file=open(os.environ['OMNILEARN_TRACE_FILE'], 'a'))"
    report = run(job_of(script), run.complete_when(lambda: True))
    assert (report.steps, report.samples, report.seconds, report.uniform_seconds) == (1, 8, 2.0, 1.0)
    assert (report.members[0].samples_per_second, report.members[0].wait_fraction) == (8.0, 0.25)
    assert (report.audit.rounds, report.audit.lost) == (1, 0)
    assert (run.output / "shares.png").read_bytes()[:4] == b"\x89PNG"


def test_a_second_run_does_not_take_the_first_ones_traces_for_its_own(run: Run) -> None:
    for _ in range(2):
        run(job_of("pass"), run.complete_when(lambda: True))
        (run.output / "workers" / "job-w-9-0.jsonl").write_text("old")
        (run.output / "checkpoints").mkdir(exist_ok=True)
    assert run(job_of("pass"), run.complete_when(lambda: True)).audit.unreadable_lines == 0
    assert (run.output / "checkpoints.old").is_dir()
    assert not (run.output / "checkpoints").exists()


def test_a_port_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(CannotStartError, match=f"cannot listen on port {port} .*choose another with --port"):
            free_port(port)
    assert free_port(port) == port


def test_a_job_without_workers_cannot_start(run: Run) -> None:
    with pytest.raises(CannotStartError, match="the job has no workers: raise replicas"):
        run(job_of("pass", replicas=0), View)
