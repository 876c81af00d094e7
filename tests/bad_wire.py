"""Bad things that somebody may send to a coordinator. A new one is a line here; the tests try all of them.

`FRAMES` come over a good worker's WebSocket, `BREAKERS` too, as raw bytes; `REQUESTS` come instead of a handshake.
"""

from __future__ import annotations

import json
import struct
from typing import Any

from omnilearn_core.api.messages import LARGEST_MESSAGE
from omnilearn_core.api.names import namespace_path, worker_path

GENERATION = {"number": 1, "nonce": "n"}
PLAN = {
    "generation": GENERATION, "version": 1, "globalBatch": 64, "shares": {"noisy-a-0": 32, "noisy-a-1": 32}, "tail": 0,
}  # fmt: skip
MEMBER = {"worker": "noisy-a-0", "attempt": 0, "device": "cpu", "address": "10.0.0.1", "port": 4000, "fresh": False}
REPORT = {
    "type": "report", "worker": "noisy-a-0", "generation": GENERATION, "planVersion": 1, "step": 1, "epoch": 0,
    "samples": 64, "totalSamples": 1000, "share": 32, "steps": 1, "computeSeconds": 0.1, "tailSamples": 0.0,
    "tailSeconds": 0.0, "loadSeconds": 0.0, "reduceSeconds": 0.0, "waitSeconds": 0.0, "stepSeconds": 0.2, "loss": 0.5,
    "cpuQuota": 1.0, "memoryBound": 32, "inPieces": True, "skipped": 0, "logged": {"accuracy": 0.5},
}  # fmt: skip
JOIN = {
    "type": "join", "device": "cpu", "address": "10.0.0.1", "port": 4000, "cpuQuota": 1.0, "lastGeneration": 1,
    "round": 3, "generation": GENERATION, "members": [MEMBER], "plan": PLAN, "lawState": "{}",
}  # fmt: skip

MESSAGES: dict[str, dict[str, Any]] = {
    "join": JOIN,
    "built": {"type": "built", "generation": GENERATION},
    "entered": {"type": "entered", "generation": GENERATION, "round": 3},
    "broken": {"type": "broken", "generation": GENERATION, "why": "a socket failed"},
    "report": REPORT,
    "leave": {"type": "leave", "why": "SIGTERM"},
    "done": {
        "type": "done", "generation": GENERATION, "round": 9, "steps": 9, "samples": 576, "lost": 0, "doubled": 0,
        "skipped": 0, "parameterHash": "abc",
    },
    "failed": {"type": "failed", "error": "ValueError", "everywhere": False},
}  # fmt: skip
"""A good message of every kind, with all its fields."""


def _with(message: dict[str, Any], **fields: Any) -> str:
    return json.dumps(message | fields)


FRAMES: dict[str, str | bytes] = {
    "nothing": "",
    "no JSON": "nonsense",
    "half of a message": _with(REPORT)[:-9],
    "two messages": _with(REPORT) * 2,
    "a list": "[]",
    "a number": "17",
    "null": "null",
    "a lone surrogate": '{"type": "leave", "why": "\\ud800"}',
    "a null character": "\0",
    "binary": b"\x80\x04\x95pickle",
    "binary JSON": json.dumps(REPORT).encode(),
    "no type": _with({"worker": "noisy-a-0"}),
    "an unknown type": _with(REPORT, type="shutdown"),
    "a type that is a list": _with(REPORT, type=["report"]),
    "a type that is an object": _with(REPORT, type={"report": 1}),
    "a coordinator's message": '{"type": "release", "why": "go"}',
    "NaN": _with(REPORT, loss=float("nan")),
    "Infinity": _with(REPORT, computeSeconds=float("inf")),
    "minus Infinity": _with(REPORT, stepSeconds=float("-inf")),
    "a number beyond floats": _with(REPORT).replace('"loss": 0.5', '"loss": 1e999'),
    "a negative time": _with(REPORT, computeSeconds=-0.1),
    "a time beyond all bounds": _with(REPORT, stepSeconds=1e300),
    "a negative share": _with(REPORT, share=-1),
    "a share of 10^30": _with(REPORT, share=10**30),
    "a step of 10^4299": _with(REPORT).replace('"step": 1', '"step": 1' + "0" * 4299),
    "half a step": _with(REPORT, step=1.5),
    "a step as text": _with(REPORT, step="1"),
    "true for a number": _with(REPORT, steps=True),
    "an unknown field": _with(REPORT, admin=True),
    "a field in snake_case that is there twice": _with(REPORT, plan_version=1),
    "no generation": json.dumps({key: value for key, value in REPORT.items() if key != "generation"}),
    "the last of two keys is bad": _with(REPORT)[:-1] + ', "share": -5}',
    "for another worker": _with(REPORT, worker="noisy-a-1"),
    "for a worker of another job": _with(REPORT, worker="calm-a-0"),
    "for a worker of a long name": _with(REPORT, worker="a" * 64),
    "too many logged values": _with(REPORT, logged={f"n{k}": 1.0 for k in range(65)}),
    "a logged name that is none": _with(REPORT, logged={'x"} 1\nomnilearn_step{job="calm"': 1.0}),
    "deep lists": "[" * 100_000,
    "deep objects": '{"type": ' * 10_000,
    "a deep field": '{"type": "leave", "why": ' + "[" * 500 + "]" * 500 + "}",
    "a long text": _with(MESSAGES["leave"], why="x" * 2001),
    "a text of megabytes": _with(MESSAGES["leave"], why="x" * (2**21)),
    "a law's state of megabytes": _with(JOIN, lawState="x" * (3 * 2**20 + 1)),
    "a plan that does not sum up": _with(JOIN, plan=PLAN | {"tail": 1}),
    "a plan without shares": _with(JOIN, plan=PLAN | {"shares": {}}),
    "no members": _with(JOIN, members=[]),
    "members of members": _with(JOIN, members=[MEMBER | {"worker": MEMBER}]),
    "port 0": _with(JOIN, port=0),
    "port 65536": _with(JOIN, port=65536),
    "no CPU": _with(JOIN, cpuQuota=0),
    "a nonce of megabytes": _with(MESSAGES["built"], generation={"number": 1, "nonce": "n" * 2**20}),
}
"""What is no message, or not this worker's: refused in a sentence, and nothing comes of it."""


def frame(payload: bytes, *, opcode: int = 1, fin: bool = True, length: int | None = None, bits: int = 0) -> bytes:
    """Return a client's frame of a WebSocket; ``length`` is what it says of itself."""
    size = len(payload) if length is None else length
    head = bytes([(0x80 if fin else 0) | bits | opcode])
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 2**16:
        head += bytes([0x80 | 126]) + struct.pack("!H", size)
    else:
        head += bytes([0x80 | 127]) + struct.pack("!Q", size)
    return head + bytes(4) + payload  # a mask of zeros


BREAKERS: dict[str, bytes] = {
    "a frame that is too large": frame(b"x" * 100, length=LARGEST_MESSAGE + 1),
    "a frame of 2^63 bytes": frame(b"x" * 100, length=2**63 - 1),
    "pieces that are too large together": frame(b"x" * LARGEST_MESSAGE, fin=False) + frame(b"xx", opcode=0),
    "no UTF-8": frame(b"\xff\xfe\xfd"),
    "half of a character": frame("ä".encode()[:1]),
    "bits that nobody has agreed upon": frame(b"{}", bits=0x40),
    "an unknown kind of frame": frame(b"{}", opcode=5),
    "a piece of nothing": frame(b"{}", opcode=0),
    "a ping in pieces": frame(b"", opcode=9, fin=False),
    "a ping that is too long": frame(b"x" * 126, opcode=9),
    "a goodbye of one byte": frame(b"x", opcode=8),
}
"""What is no frame: the connection ends with a code that says why."""

_PATH = namespace_path("team") + worker_path("noisy", "noisy-a-0")
_UPGRADE = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n"
)


def request(
    bearer: str = "noisy-a-0", path: str = _PATH, *, method: str = "GET", upgrade: str = _UPGRADE, more: str = ""
) -> bytes:
    """Return the request of a handshake."""
    told = f"Authorization: Bearer {bearer}\r\n" if bearer else ""
    return f"{method} {path} HTTP/1.1\r\nHost: c\r\n{told}{upgrade}{more}\r\n".encode("latin-1")


REQUESTS: dict[str, tuple[bytes, int]] = {
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n", 400),
    "half of HTTP": (b"GET\r\n\r\n", 400),
    "HTTP of another age": (b"GET / HTTP/9.9\r\n\r\n", 400),
    "a header without a colon": (b"GET / HTTP/1.1\r\nHost c\r\n\r\n", 400),
    "a header of 100 kB": (request(more=f"X: {'x' * 100_000}\r\n"), 400),
    "two lengths": (request(more="Content-Length: 1\r\nContent-Length: 2\r\n"), 400),
    "a length that is none": (request(more="Content-Length: -1\r\n"), 400),
    "a path of 100 kB": (request(path="/" + "x" * 100_000), 400),
    "no path of ours": (request(path="/admin"), 404),
    "a path that climbs": (request(path="/namespaces/../../metrics"), 404),
    "a path with a null": (request(path=_PATH + "%00"), 403),
    "a POST": (request(method="POST"), 405),
    "a DELETE": (request(method="DELETE"), 405),
    "no upgrade": (request(upgrade=""), 400),
    "another upgrade": (request(upgrade="Connection: Upgrade\r\nUpgrade: h2c\r\n"), 400),
    "another version of WebSockets": (request(upgrade=_UPGRADE.replace("13", "99")), 400),
    "a key that is none": (request(upgrade=_UPGRADE.replace("MDEyMzQ1Njc4OWFiY2RlZg==", "short")), 400),
    "no token": (request(""), 401),
    "a token that is none": (request("nonsense"), 401),
    "a token of 8 kB": (request("x" * 8000), 401),
    "a token that is no text": (request("\xff\xfe"), 401),
    "another worker's token": (request("noisy-a-1"), 403),
    "a token of another job": (request("calm-a-0"), 401),
    "a token of another namespace": (request("elsewhere"), 401),
    "a token for somebody else": (request("audience"), 401),
    "a token that has expired": (request("expired"), 401),
    "a token of a pod that is gone": (request("gone"), 401),
    "a token of an earlier pod of that name": (request("earlier"), 401),
    "a token of a person": (request("person"), 401),
    "another job": (request(path=_PATH.replace("jobs/noisy", "jobs/calm")), 401),
    "a job that is not there": (request(path=_PATH.replace("jobs/noisy", "jobs/nobody")), 404),
    "another namespace": (request(path=_PATH.replace("team", "other")), 404),
    "a worker that is not there": (request(path=_PATH.replace("noisy-a-0", "noisy-b-9")), 403),
}
"""What is no handshake of a worker, and the status that it is answered with."""
