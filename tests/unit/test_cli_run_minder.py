"""The minder: whatever happens to the launcher, nothing is left behind."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from omnilearn_cli.local import minder
from omnilearn_cli.local.minding import Minder
from omnilearn_cli.local.processes import Tail, WorkerProcess, start_process

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"


def until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Wait for a condition; tell whether it came."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def is_gone(pid: int) -> bool:
    """Tell whether a process has ended; one that nobody has waited for yet has, too."""
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.fixture
def python(tmp_path: Path) -> Iterator[Callable[[Minder, str], WorkerProcess]]:
    """Start some Python as a worker's process."""
    started: list[WorkerProcess] = []

    def start(mind: Minder, code: str) -> WorkerProcess:
        command = [sys.executable, "-c", code]
        started.append(start_process(command, {}, tmp_path, tmp_path / "log", None, mind))
        return started[-1]

    yield start
    for process in started:
        process.send(signal.SIGKILL)
        process.close()


def test_what_was_forgotten_is_let_alone() -> None:
    kept = minder.learn(
        ["group 1\n", "group 2\n", "cgroup /a b\n", "forget group 1\n", "folder /x\n", "forget group 9\n"]
    )
    assert kept == {"group": ["2"], "cgroup": ["/a b"], "folder": ["/x"]}


def test_a_closed_pipe_ends_processes_and_removes_folders(
    tmp_path: Path, python: Callable[[Minder, str], WorkerProcess]
) -> None:
    mind = Minder()
    folder = tmp_path / "tokens"
    folder.mkdir()
    (folder / "secret").write_text("x")
    mind.mind("folder", folder)
    process = python(mind, "import time; time.sleep(60)")
    closing = threading.Thread(target=mind.close)
    closing.start()
    assert until(lambda: process.exit_code() is not None)
    closing.join()
    assert not folder.exists()


def test_a_process_that_does_not_listen_is_killed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, python: Callable[[Minder, str], WorkerProcess]
) -> None:
    monkeypatch.setattr(minder, "ASKED_SECONDS", 0.2)
    mind = Minder()
    process = python(mind, DEAF)
    assert until(lambda: "deaf" in (tmp_path / "log").read_text())
    minder.end([process.pid])
    assert until(lambda: process.exit_code() == -9)
    mind.close()


def test_what_a_worker_has_started_ends_with_it(tmp_path: Path, python: Callable[[Minder, str], WorkerProcess]) -> None:
    mind = Minder()
    code = "import subprocess, sys; print(subprocess.Popen(['sleep', '60']).pid, flush=True)"
    process = python(mind, code)
    assert until(lambda: process.exit_code() is not None)
    child = int((tmp_path / "log").read_text())
    assert until(lambda: is_gone(child))
    mind.close()


def test_a_worker_without_its_launcher_never_begins(tmp_path: Path) -> None:
    """The gate opens only after the minder knows: a launcher that dies before leaves nothing that nobody minds."""
    from omnilearn_cli.local.processes import _GATE  # noqa: PLC0415 - the gate itself is what is tested

    begun = tmp_path / "begun"
    command = ["/bin/sh", "-c", _GATE, "omnilearn", "", "touch", str(begun)]
    assert subprocess.run(command, stdin=subprocess.DEVNULL, check=False, timeout=10).returncode == 125
    assert not begun.exists()


def test_output_is_read_in_whole_lines_as_a_terminal_would_leave_them(tmp_path: Path) -> None:
    file = tmp_path / "log"
    with file.open("wb") as log:
        tail = Tail(file)
        log.write(b"one\n10%\r99%\n\x1b[31mred\x1b[0m\nha")
        log.flush()
        assert tail.lines() == ["one", "99%", "red"]
        log.write(b"lf\xff")
        log.flush()
        assert tail.lines() == []
        assert tail.lines(last=True) == ["half\ufffd"]
    tail.close()
