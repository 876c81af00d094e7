"""What is refused, of a request or of a message: in a sentence, counted by kind, and told in the log now and then."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum

from aiohttp import web
from pydantic import ValidationError

from omnilearn_core.api.frames import FROM_WORKER
from omnilearn_core.api.messages import FromWorker

from .limits import Allowance

logger = logging.getLogger(__name__)

_LONGEST_SENTENCE = 500
_LINES_AT_ONCE, _LINES_EACH_SECOND = 5.0, 0.1


class Refusal(StrEnum):
    """Why something was refused: the label of a metric, so there are few of them."""

    HTTP = "http"
    """What came is no request for a worker's WebSocket."""

    HANDSHAKE = "handshake"
    """A connection of somebody who has too many that ask for nothing."""

    TOKEN = "token"  # noqa: S105 - the name of a kind
    """A token that is missing, not valid, or nobody's here."""

    WORKER = "worker"
    """Somebody speaks for another worker."""

    ATTEMPT = "attempt"
    """An attempt of a worker that another one has replaced."""

    JOB = "job"
    """A job that is not here, or not yet."""

    CONNECTIONS = "connections"
    """More connections, or more often, than a worker or a job needs."""

    RATE = "rate"
    """More messages or more unknown tokens than allowed: they wait, or are told to come again."""

    MESSAGE = "message"
    """A message that is not understood."""

    FRAME = "frame"
    """What is no frame of a WebSocket, or too large for one."""

    UNABLE = "unable"
    """Nothing wrong with it, but nobody can tell now."""


class Refusals:
    """The refusals of a job, or of those that belong to none, by kind."""

    def __init__(self, of: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._of, self._clock = of, clock
        self._counts: Counter[Refusal] = Counter()
        self._lines: dict[Refusal, Allowance] = {}

    @property
    def counts(self) -> Mapping[str, int]:
        """How many there were."""
        return {str(kind): count for kind, count in self._counts.items()}

    def count(self, kind: Refusal, sentence: str) -> None:
        """Count one; the log hears of the first ones, and then of one now and then: it must not be flooded, too."""
        self._counts[kind] += 1
        now = self._clock()
        lines = self._lines.setdefault(kind, Allowance(_LINES_AT_ONCE, _LINES_EACH_SECOND, now))
        if lines.take(now):
            logger.info("%s: refused (%s, %d so far): %s", self._of, kind, self._counts[kind], sentence)


class RefusedRequest(web.HTTPException):
    """A request that is refused, by a status and a sentence; the connection ends with it."""

    def __init__(self, status: int, sentence: str, kind: Refusal) -> None:
        self.status_code = status
        super().__init__(text=json.dumps({"sentence": sentence}), content_type="application/json")
        self.force_close()
        self.kind, self.sentence = kind, sentence


def refuse(status: int, sentence: str, kind: Refusal) -> RefusedRequest:
    """Return the HTTP error that says a sentence."""
    return RefusedRequest(status, sentence[:_LONGEST_SENTENCE], kind)


class BadFrameError(ValueError):
    """A frame that is no message; the sentence says what is wrong with it."""


def parse(frame: str) -> FromWorker:
    """Return the message of a frame, or raise BadFrameError."""
    try:
        return FROM_WORKER.validate_json(frame)
    except ValidationError as error:
        raise BadFrameError(sentence_of(error)[:_LONGEST_SENTENCE]) from None


def sentence_of(error: ValidationError) -> str:
    """Return the first thing that is wrong, in words."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return "the message is not JSON: send one JSON object per frame"
    if first["type"].startswith("union_tag"):
        return "the message has no type that is known here: see docs/protocol.md for the types"
    kind, *path = [str(part) for part in first["loc"]]
    field = ".".join(path) or "its form"
    what = first["msg"][:1].lower() + first["msg"][1:]
    return f"the field {field} of a {kind} message is wrong: {what}"
