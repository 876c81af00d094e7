"""How late the operator's loop is, measured while something blocks it."""

from __future__ import annotations

import asyncio
import time

from omnilearn_operator import lag
from omnilearn_operator.lag import Lag


def test_a_loop_that_is_blocked_is_late_by_about_as_long() -> None:
    found = Lag()
    assert found.worst == 0.0

    async def blocked() -> None:
        watching = asyncio.create_task(found.run())
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(time.sleep, lag._PAUSE_SECONDS + 0.3)
        await asyncio.sleep(lag._PAUSE_SECONDS + 0.31)
        watching.cancel()

    asyncio.run(blocked())
    assert 0.25 < found.worst < 5.0
