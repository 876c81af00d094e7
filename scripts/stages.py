"""Run the named make stages one after another, each with its time; stop at the first that fails.

Called by `make check` and `make test`. A stage `x` is the target `stage-x` of the Makefile. Stages that are joined by a
plus run side by side: what the first one prints is seen at once, what the others print when they have ended.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack


def side_by_side(commands: Mapping[str, Sequence[str]], env: Mapping[str, str] | None = None) -> dict[str, int]:
    """Run commands side by side, each under its name; return their exit codes."""
    codes: dict[str, int] = {}
    with ExitStack() as stack:
        outputs = [None, *(stack.enter_context(tempfile.TemporaryFile()) for _ in list(commands)[1:])]
        running = [
            subprocess.Popen(command, stdout=output, stderr=output, env=env)
            for command, output in zip(commands.values(), outputs, strict=True)
        ]
        for name, output, process in zip(commands, outputs, running, strict=True):
            print(f"\n=== {name}", flush=True)
            codes[name] = process.wait()
            if output is not None:
                output.seek(0)
                print(output.read().decode(errors="replace"), flush=True)
    return codes


def main(wanted: list[str]) -> int:
    """Run the stages and print what each took."""
    if not wanted:
        print("name at least one stage, such as: unit")
        return 2
    begun, took = time.monotonic(), dict[str, float]()
    for stages in wanted:
        since = time.monotonic()
        codes = side_by_side({each: ["make", "--no-print-directory", f"stage-{each}"] for each in stages.split("+")})
        took[stages] = time.monotonic() - since
        failed = [stage for stage, code in codes.items() if code]
        for stage in failed:
            print(f"\n=== {stage} failed after {took[stages]:.1f} s", flush=True)
        if failed:
            return 1
    print("\n=== all stages passed")
    for stage, seconds in [*took.items(), ("together", time.monotonic() - begun)]:
        print(f"  {stage:<32}{seconds:7.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
