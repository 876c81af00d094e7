"""Sentences for messages and requests that are refused."""

from __future__ import annotations

import json

from aiohttp import web
from pydantic import ValidationError

from omnilearn_core.api.frames import FROM_WORKER
from omnilearn_core.api.messages import FromWorker

_LONGEST_SENTENCE = 500


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


def refuse(status: int, sentence: str) -> web.HTTPException:
    """Return the HTTP error that says a sentence."""
    error = {
        401: web.HTTPUnauthorized,
        403: web.HTTPForbidden,
        404: web.HTTPNotFound,
        503: web.HTTPServiceUnavailable,
    }[status]
    return error(text=json.dumps({"sentence": sentence}), content_type="application/json")
