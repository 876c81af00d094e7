"""All tests on the cluster, for `make e2e`: those that leave node and operator alone side by side, then the others.

A test file that is not named here runs alone. `pytest tests/e2e/test_x.py` needs none of this: it installs by itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from scripts.stages import side_by_side

import cluster as clusters

from .beside import RESTING, resting
from .conftest import READY
from .install import install

_FOLDER = Path(__file__).parent
# Who compares speeds needs the node for itself.
_LANES = (
    ("test_strategies.py", "test_rights.py", "test_rules.py", "test_tokens.py"),
    ("test_life.py", "test_trouble.py"),
)
# Who has an operator of its own wants the installed one to rest.
_APART = (("test_faulty_api.py",), ("test_away_api.py",))
_NOTHING_RUN = 5
"""What pytest exits with where every test was left out."""


def main(options: Sequence[str]) -> int:
    """Make a cluster, install, run everything with these options of pytest; a cluster that was there before stays."""
    was_there = bool(clusters.status())
    try:
        made = clusters.up()
    except clusters.ImpossibleError as error:
        sys.stdout.write(f"e2e: no cluster can be had: {error}\n")
        return int(os.environ.get("CI") == "true")
    try:
        install(made)
        named = {file for lane in (*_LANES, *_APART) for file in lane}
        alone = sorted(file.name for file in _FOLDER.glob("test_*.py") if file.name not in named)
        worst = _together(_LANES, options)
        with resting(made) if made.provider == "node" else nullcontext():
            worst = max(worst, _together(_APART, options, RESTING))
        return max(worst, _together((tuple(alone),), options))
    finally:
        if made.provider == "node" and not was_there:
            clusters.down()


def _together(lanes: Sequence[Sequence[str]], options: Sequence[str], *told: str) -> int:
    """Run lanes side by side, with these variables set; return the worst exit code."""
    commands = {
        " ".join(lane): [sys.executable, "-m", "pytest", *options, *(str(_FOLDER / file) for file in lane)]
        for lane in lanes
    }
    codes = side_by_side(commands, os.environ | dict.fromkeys((READY, *told), "yes"))
    return max(0 if code == _NOTHING_RUN else abs(code) for code in codes.values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
