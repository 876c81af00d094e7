"""Start the operator: `omnilearn-operator`, configured by its environment (docs/install.md)."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys

from . import settings
from .api import ApiError
from .certificates import CertificateError
from .client import Client
from .leadership import Timing
from .logs import log_as
from .patience import StartError
from .running import Operator
from .serving import make_room
from .settings import BadSettingError, OperatorSettings

# How much is made, and how often a generation is looked through, before the next one is.
_GARBAGE = (10_000, 20, 50)


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
        make_room()
        # What is loaded stays, and what comes mostly stays, too: looking through it often keeps workers waiting.
        gc.freeze()
        gc.set_threshold(*_GARBAGE)
        asyncio.run(run(chosen))
    except (BadSettingError, StartError, CertificateError, ApiError) as error:
        sys.stderr.write(f"omnilearn-operator: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
