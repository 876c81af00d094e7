"""Start the operator: `omnilearn-operator`, configured by its environment (docs/install.md)."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from datetime import UTC, datetime

from . import settings
from .api import ApiError
from .certificates import CertificateError
from .client import Client
from .leadership import Timing
from .patience import StartError
from .running import Operator
from .settings import BadSettingError, LogFormat, OperatorSettings


class _JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def log_as(form: LogFormat) -> None:
    """Write the log to standard error."""
    handler = logging.StreamHandler()
    plain = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(_JsonFormatter() if form is LogFormat.JSON else plain)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    # kopf tells of every event that it hands over.
    logging.getLogger("kopf").setLevel(logging.WARNING)


async def run(chosen: OperatorSettings) -> None:
    """Run the operator until it is told to end."""
    api = await Client.logged_in(Timing(chosen.lease_seconds).margin)
    try:
        await Operator(chosen, api).run()
    except asyncio.CancelledError:
        logging.getLogger(__name__).info("told to end")
    finally:
        await api.close()


def main() -> int:
    """Run the operator; return its exit code."""
    try:
        chosen = settings.read()
        log_as(chosen.log_format)
        asyncio.run(run(chosen))
    except (BadSettingError, StartError, CertificateError, ApiError) as error:
        sys.stderr.write(f"omnilearn-operator: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
