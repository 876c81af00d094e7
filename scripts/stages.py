"""Run the named make stages one after another, each with its time; stop at the first that fails.

Called by `make check` and `make test`. A stage `x` is the target `stage-x` of the Makefile. Stages that are joined by a
plus run side by side: what the first one prints is seen at once, what the others print when they have ended.
"""

import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from typing import IO


def _started(stage: str, output: IO[bytes] | None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["make", "--no-print-directory", f"stage-{stage}"], stdout=output, stderr=output)


def _together(stages: list[str], took: dict[str, float]) -> list[str]:
    """Run some stages side by side; return those that failed."""
    begun, failed = time.monotonic(), []
    with ExitStack() as stack:
        outputs = [None, *(stack.enter_context(tempfile.TemporaryFile()) for _ in stages[1:])]
        running = [_started(stage, output) for stage, output in zip(stages, outputs, strict=True)]
        for stage, output, process in zip(stages, outputs, running, strict=True):
            print(f"\n=== {stage}", flush=True)
            code = process.wait()
            took[stage] = time.monotonic() - begun
            if output is not None:
                output.seek(0)
                print(output.read().decode(errors="replace"), flush=True)
            if code:
                failed.append(stage)
    return failed


def main(wanted: list[str]) -> int:
    """Run the stages and print what each took."""
    if not wanted:
        print("name at least one stage, such as: unit")
        return 2
    begun, took = time.monotonic(), dict[str, float]()
    for stages in wanted:
        failed = _together(stages.split("+"), took)
        for stage in failed:
            print(f"\n=== {stage} failed after {took[stage]:.1f} s", flush=True)
        if failed:
            return 1
    print("\n=== all stages passed")
    for stage, seconds in [*took.items(), ("together", time.monotonic() - begun)]:
        print(f"  {stage:<12}{seconds:7.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
