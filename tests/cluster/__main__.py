"""`python -m cluster up|down|status|build`; exit code 3 if this machine can have no cluster."""

from __future__ import annotations

import argparse
import os
import sys

from cluster import binaries, lifecycle, node
from cluster.errors import FailedError, ImpossibleError
from cluster.progress import Progress

NO_CLUSTER = 3


def main(words: list[str]) -> int:
    """Do what is asked for and return the exit code."""
    asked = _parser().parse_args(words)
    progress = Progress()
    try:
        return int(asked.action(asked, progress))
    except ImpossibleError as error:
        progress.say(f"there can be no cluster here: {error}")
        return NO_CLUSTER
    except FailedError as error:
        progress.say(f"failed: {error}")
        return 1
    except KeyboardInterrupt:
        progress.say("interrupted: run it again to go on, or down to remove what there is")
        return 130


def _up(asked: argparse.Namespace, progress: Progress) -> int:
    cluster = lifecycle.up(progress)
    progress.say(f"{progress.total():7.1f} s altogether")
    progress.say(f"kubectl: {cluster.kubectl}")
    progress.say(f"helm:    {cluster.helm}")
    sys.stdout.write(f"KUBECONFIG={cluster.kubeconfig}\n")
    return 0


def _down(asked: argparse.Namespace, progress: Progress) -> int:
    lifecycle.down(asked.all, progress)
    progress.say(f"{progress.total():7.1f} s altogether")
    return 0


def _status(asked: argparse.Namespace, progress: Progress) -> int:
    lines = lifecycle.status()
    sys.stdout.write("".join(f"{line}\n" for line in lines) or "there is no node here\n")
    return 0 if lines else 1


def _build(asked: argparse.Namespace, progress: Progress) -> int:
    binaries.ensure(node.builds(binaries.programs_folder(os.environ)), progress)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="cluster", description=__doc__)
    actions = parser.add_subparsers(required=True)
    actions.add_parser("up", help="make a cluster, or mend the one that is there").set_defaults(action=_up)
    down = actions.add_parser("down", help="take it away; images and logs stay")
    down.add_argument("--all", action="store_true", help="images and logs, too")
    down.set_defaults(action=_down)
    actions.add_parser("status", help="show the components").set_defaults(action=_status)
    actions.add_parser("build", help="only build what is missing").set_defaults(action=_build)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
