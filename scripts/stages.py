"""Run the named make stages one after another, each with its time; stop at the first that fails.

Called by `make check` and `make test`. A stage `x` is the target `stage-x` of the Makefile.
"""

import subprocess
import sys
import time


def main(stages: list[str]) -> int:
    """Run the stages and print what each took."""
    if not stages:
        print("name at least one stage, such as: unit")
        return 2
    took: list[tuple[str, float]] = []
    for stage in stages:
        print(f"\n=== {stage}", flush=True)
        begun = time.monotonic()
        code = subprocess.run(["make", "--no-print-directory", f"stage-{stage}"], check=False).returncode
        took.append((stage, time.monotonic() - begun))
        if code:
            print(f"\n=== {stage} failed after {took[-1][1]:.1f} s", flush=True)
            return 1
    print("\n=== all stages passed")
    for stage, seconds in [*took, ("together", sum(seconds for _, seconds in took))]:
        print(f"  {stage:<12}{seconds:7.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
