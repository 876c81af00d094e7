"""What people see while faults are played: a line for each, and a line for what has followed it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from .consequences import Strike


class Log:
    """Writes lines as things happen."""

    def __init__(self, count: int, console: Console | None = None) -> None:
        self._count, self._console = count, console or Console(width=140, highlight=False)
        self._began = time.monotonic()
        self._struck = 0

    def say(self, text: str) -> None:
        """Write a line with the time."""
        self._console.print(f"{time.monotonic() - self._began:7.1f} s  {text}", markup=False)

    def struck(self, strike: Strike) -> None:
        """Tell of a fault."""
        self._struck += strike.fault.count
        self.say(f"[{self._struck:>3}/{self._count}] #{strike.number} {strike.fault}: {target_of(strike)}")

    def noticed(self, strike: Strike, awaited: Sequence[str]) -> None:
        """Tell that all has been seen that was to be seen after a fault."""
        if awaited and not strike.awaited:
            self.say(f"          #{strike.number} {strike.fault.kind}: {came_of(strike)}")

    def table(self, strikes: Sequence[Strike], began: float) -> None:
        """Show all faults of a run."""
        table = Table("#", "fault", "target", "at s", "seen after s", title="faults")
        for each in strikes:
            at = f"{each.wall - began:.0f}"
            table.add_row(str(each.number), str(each.fault), target_of(each), at, came_of(each))
        self._console.print(table)

    def show(self, table: Table) -> None:
        """Show a table."""
        self._console.print(table)


def target_of(strike: Strike) -> str:
    """Say what was hit."""
    names = ", ".join(pod.name for pod in strike.victims)
    brief = "briefly" if strike.brief else ""
    return " ".join(each for each in (names, strike.detail, brief) if each) or str(strike.fault.kind)


def came_of(strike: Strike) -> str:
    """Say what was seen, and after how many seconds."""
    seen = [f"{name} {seconds:.1f}" for name, seconds in strike.came.items()]
    rest = ["overtaken by another fault"] if strike.overtaken else [f"no {name}" for name in strike.awaited]
    return ", ".join(seen + rest)
