"""What the operator writes to its log: a line for each thing that happened, with the job that it happened to."""

from __future__ import annotations

import json
import logging
from contextvars import ContextVar
from datetime import UTC, datetime

from .settings import LogFormat

# Tasks that are begun on behalf of a job inherit it.
_JOB: ContextVar[str] = ContextVar("job", default="")


def on_behalf_of(job: object) -> None:
    """Have what this task, and those that it begins, write to the log bear a job's name."""
    _JOB.set(str(job))


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if job := _JOB.get():
            line["job"] = job
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def log_as(form: LogFormat) -> None:
    """Write the log to standard error."""
    handler = logging.StreamHandler()
    plain = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonFormatter() if form is LogFormat.JSON else plain)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    # kopf tells of every event that it hands over.
    logging.getLogger("kopf").setLevel(logging.WARNING)
