"""However a local run is ended, nothing of it is left."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from local_runs import ENTERED, Run, job_of, wait_for
from omnilearn_cli.local.ending import State
from omnilearn_cli.local.launcher import Interrupts
from omnilearn_cli.local.limits import open_limits


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


@pytest.mark.parametrize("times", [1, 2])
def test_an_interrupt_ends_everything_in_time(run: Run, times: int) -> None:
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf'); time.sleep(60)"

    def interrupt() -> None:
        for _ in range(times):
            time.sleep(0.7)
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    began = time.monotonic()
    report = run(job_of(deaf), lambda: ENTERED, grace_seconds=3.0 if times == 1 else 60.0)
    thread.join()
    assert report.state is State.INTERRUPTED
    assert time.monotonic() - began < 10
    assert (run.output / "report.json").exists()


def test_an_interrupt_is_heard_once() -> None:
    async def scene() -> list[bool]:
        interrupts = Interrupts()
        interrupts.interrupt()
        return [await interrupts.within(0.01), await interrupts.within(0.01)]

    assert asyncio.run(scene()) == [True, False]


LAUNCH = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from local_runs import ENTERED, Run, job_of
Run(Path(sys.argv[2]))(job_of("import os, time; print(os.getpid()); time.sleep(60)"), lambda: ENTERED, timeout=60.0)
"""


def test_a_killed_launcher_leaves_no_process_no_cgroup_and_no_token(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-c", LAUNCH, str(Path(__file__).parents[1]), str(tmp_path)]
    launcher = subprocess.Popen(command, env={**os.environ, "TMPDIR": str(scratch)}, stdout=subprocess.DEVNULL)
    log = tmp_path / "out" / "logs" / "job-w-0-0.log"
    wait_for(lambda: log.exists() and log.read_text().endswith("\n"))
    worker = int(log.read_text())
    assert list(scratch.glob("omnilearn-*/job-w-0-0"))
    cgroup = open_limits(launcher.pid).folder("job-w-0")
    launcher.kill()
    launcher.wait()
    wait_for(lambda: not Path(f"/proc/{worker}").exists() or "State:\tZ" in Path(f"/proc/{worker}/status").read_text())
    wait_for(lambda: not list(scratch.iterdir()))
    wait_for(lambda: cgroup is None or not cgroup.exists())
