"""A process that has imported torch and forks a worker whenever it is asked: a worker is up in 50 ms, not in 5 s.

What workers do is a module with `warm_up` and `train`, which is named on the command line. The test writes one JSON
request per line to its input; it writes one line for every process that has started, stopped or ended. When its input
closes, it kills all its processes and ends. It has one thread, so forking is safe.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import select
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)
_WORK = importlib.import_module(sys.argv[1])


def main() -> None:
    """Serve requests until the input closes."""
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    os.set_blocking(wake_read, False)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: set[int] = set()
    _WORK.warm_up()
    _say({"ready": True, "threads": len(list(Path("/proc/self/task").iterdir()))})
    rest = b""
    try:
        while True:
            readable, _, _ = select.select([0, wake_read], [], [])
            if wake_read in readable:
                os.read(wake_read, 4096)
                _reap(running)
            if 0 in readable:
                chunk = os.read(0, 65536)
                if not chunk:
                    return
                *lines, rest = (rest + chunk).split(b"\n")
                running.update(_start(json.loads(line)) for line in lines)
    finally:
        for pid in running:
            os.kill(pid, signal.SIGKILL)


def _say(message: dict[str, Any]) -> None:
    os.write(1, json.dumps({**message, "time": time.time()}).encode() + b"\n")


def _reap(running: set[int]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if os.WIFSTOPPED(status):
            _say({"pid": pid, "stopped": True})
        else:
            running.discard(pid)
            _say({"pid": pid, "code": os.waitstatus_to_exitcode(status)})


def _start(request: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        _say({"pid": pid, "started": request["id"]})
        return pid
    code = 1
    try:
        _become(request)
        _WORK.train(Path(request["folder"]))
        code = 0
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else 1
    except BaseException:  # noqa: BLE001 - whatever a script may raise ends this process, not the zygote's loop
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _become(request: dict[str, Any]) -> None:
    """Become a worker: dies with the zygote, has its own log, environment and network."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.closerange(3, 64)
    if request.get("network"):
        with Path(request["network"]).open(encoding="ascii") as handle:
            if _LIBC.setns(handle.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"cannot enter {request['network']}")
    os.environ.update(request["environment"])


if __name__ == "__main__":
    main()
