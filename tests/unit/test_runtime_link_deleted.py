"""A worker whose job is deleted: nobody is there any more to let it go."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from omnilearn_core.api import names
from omnilearn_core.api.messages import Release, ToWorker
from omnilearn_runtime.environment import read
from omnilearn_runtime.link import Link, RefusedError


class Nobody(BaseHTTPRequestHandler):
    """Stands for an operator that does not know the job."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = b'{"sentence": "there is no job here"}'
        self.send_response(404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.server.asked.set()  # type: ignore[attr-defined]

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def operator() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Nobody) as server:
        server.asked = threading.Event()  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        server.shutdown()


class Worker:
    """A link, what it hears, and whether its worker was told to go."""

    def __init__(self, operator: ThreadingHTTPServer, tmp_path: Path) -> None:
        (tmp_path / "token").write_text("t")
        given = {
            names.ENV_COORDINATOR: f"ws://127.0.0.1:{operator.server_address[1]}",
            names.ENV_JOB: "j",
            names.ENV_WORKER: "w",
            names.ENV_TOKEN_FILE: str(tmp_path / "token"),
        }
        self.heard: queue.Queue[ToWorker] = queue.Queue()
        self.refused: list[RefusedError] = []
        self.leaves = False
        self.link = Link(read(given), list, self.heard.put, self.refused.append, lambda: self.leaves)


def test_who_was_told_to_go_and_has_no_job_any_more_may_go_at_once(
    operator: ThreadingHTTPServer, tmp_path: Path
) -> None:
    worker = Worker(operator, tmp_path)
    worker.leaves = True
    worker.link.start()
    release = worker.heard.get(timeout=10.0)
    assert isinstance(release, Release)
    assert (release.why, release.failed) == ("the coordinator refused this worker (404): there is no job here", False)
    worker.link.close()


def test_who_was_not_told_to_go_waits_for_a_coordinator_that_may_just_begin(
    operator: ThreadingHTTPServer, tmp_path: Path
) -> None:
    worker = Worker(operator, tmp_path)
    worker.link.start()
    assert operator.asked.wait(10.0)  # type: ignore[attr-defined]
    operator.asked.clear()  # type: ignore[attr-defined]
    assert operator.asked.wait(10.0)  # type: ignore[attr-defined]
    assert worker.heard.empty()
    assert worker.refused == []
    worker.link.close()
