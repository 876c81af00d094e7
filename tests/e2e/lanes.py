"""All tests on the cluster, for `make e2e`: those that leave node and operator alone side by side, then the others.

A test file that is not named here runs alone. `pytest tests/e2e/test_x.py` needs none of this: it installs by itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import cluster as clusters

from .conftest import READY
from .install import install

_FOLDER = Path(__file__).parent
# Who compares speeds needs the node for itself.
_LANES = (
    ("test_strategies.py", "test_rights.py", "test_rules.py"),
    ("test_life.py", "test_tokens.py", "test_trouble.py"),
)
_NOTHING_RUN = 5
"""What pytest exits with where every test was left out."""


def main(options: Sequence[str]) -> int:
    """Make a cluster, install, run everything with these options of pytest; a cluster that was there before stays."""
    was_there = bool(clusters.status())
    try:
        made = clusters.up()
    except clusters.ImpossibleError as error:
        _say(f"e2e: no cluster can be had: {error}")
        return int(os.environ.get("CI") == "true")
    try:
        install(made)
        named = {file for lane in _LANES for file in lane}
        alone = sorted(file.name for file in _FOLDER.glob("test_*.py") if file.name not in named)
        return max(_together(_LANES, options), _together((tuple(alone),), options))
    finally:
        if made.provider == "node" and not was_there:
            clusters.down()


def _together(lanes: Sequence[Sequence[str]], options: Sequence[str]) -> int:
    """Run lanes side by side: what the first one prints is seen at once, what the others print when they have ended."""
    begun, worst = time.monotonic(), 0
    with ExitStack() as stack:
        outputs = [None, *(stack.enter_context(tempfile.TemporaryFile()) for _ in lanes[1:])]
        running = [
            subprocess.Popen(
                [sys.executable, "-m", "pytest", *options, *(str(_FOLDER / file) for file in lane)],
                env=os.environ | {READY: "yes"},
                stdout=output,
                stderr=output,
            )
            for lane, output in zip(lanes, outputs, strict=True)
        ]
        for process, output in zip(running, outputs, strict=True):
            code = process.wait()
            if output is not None:
                output.seek(0)
                _say(output.read().decode(errors="replace"))
            worst = max(worst, 0 if code == _NOTHING_RUN else abs(code))
    _say(f"e2e: {', '.join(file for lane in lanes for file in lane)}: {time.monotonic() - begun:.0f} s")
    return worst


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
