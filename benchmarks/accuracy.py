"""Compare four unlike workers with one process: python -m benchmarks.accuracy [--quick] [--json FILE] [--plot FILE].

Equal epochs on scikit-learn's digits, for several seeds. The workers train with examples/digits/job.yaml and the law
Affine; one is killed on the way and one is added. The process runs a plain PyTorch loop. A step is the same global
batch for both, so what differs is the order in which numbers are rounded. How much that alone does is shown by the same
plain loop with each batch in four pieces.
"""

from __future__ import annotations

import math
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from io import StringIO
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console
from rich.table import Table

from omnilearn_cli.jobs import the_job
from omnilearn_cli.local.command import with_law
from omnilearn_cli.local.faults import Do, Fault, Moment
from omnilearn_cli.local.report import RunReport
from omnilearn_cli.local.run import run_job
from omnilearn_cli.local.run_options import RunOptions
from omnilearn_core.api.job import LawName

from . import plain, printing
from .goals import Verdict

EPOCHS = 15
TEST_IMAGES = 360
PIECES = 4

# A worker needs half a minute to start on a busy machine, as long as the whole training: until it is there, the others
# have a quarter of their CPUs.
_LIMITS = {"big-0": 0.8, "middle-0": 0.3, "middle-1": 0.3, "small-0": 0.2}
FAULTS = (
    Fault(Moment(seconds=0.0), Do.ADD, "big"),
    *(Fault(Moment(seconds=0.0), Do.CPU, worker, cpus / 4) for worker, cpus in _LIMITS.items()),
    *(Fault(Moment(step=50), Do.CPU, worker, cpus) for worker, cpus in _LIMITS.items()),
    Fault(Moment(step=70), Do.KILL, "middle-1"),
)

_RUN_SECONDS = 900.0
_LINE = re.compile(r"epoch +(\d+) of \d+: accuracy ([\d.]+)%")
_STUDENT_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}


@dataclass(frozen=True, slots=True)
class Pair:
    """Both trainings with one seed: the accuracy after each epoch, and what happened to the workers."""

    seed: int
    plain: tuple[float, ...]
    pieces: tuple[float, ...]
    """The plain loop with each batch in pieces."""

    workers: tuple[float, ...]
    generations: int
    joined: bool
    lost: bool
    samples_amiss: int
    """Samples that were lost or doubled, by the workers' own count and by the audit of their traces."""

    @property
    def difference(self) -> float:
        """How much better the workers are after the last epoch."""
        return self.workers[-1] - self.plain[-1]

    @property
    def widest(self) -> float:
        """The largest difference after any epoch."""
        return widest(self.plain, self.workers)

    @property
    def widest_of_rounding(self) -> float:
        """The largest difference after any epoch that rounding alone makes."""
        return widest(self.plain, self.pieces)


def widest(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the largest difference of two curves."""
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


def main() -> int:
    """Train, print the comparison, and say which goals are met."""
    options = printing.options_of("accuracy", (__doc__ or "").splitlines()[0]).parse_args()
    began = time.monotonic()
    pairs = []
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        for seed in range(2 if options.quick else 5):
            whole, pieces = (
                pool.submit(plain.train, seed, EPOCHS, count).result(timeout=_RUN_SECONDS) for count in (1, PIECES)
            )
            pairs.append(pair_of(seed, (whole, pieces), *run_workers(seed)))
            _progress(pairs[-1])
    verdicts = judge(pairs)
    console = printing.console()
    console.print(table_of(pairs))
    console.print(printing.goals_table("Goals", verdicts))
    if options.json:
        printing.write_figures(options.json, {"pairs": [asdict(pair) for pair in pairs]}, verdicts)
    if options.plot:
        draw(pairs, options.plot)
    print(f"took {time.monotonic() - began:.0f} s")
    return 0 if all(one.met for one in verdicts if one.required) else 1


def _progress(pair: Pair) -> None:
    ends = ", ".join(f"{curve[-1]:.2%}" for curve in (pair.plain, pair.pieces, pair.workers))
    happened = f"joined: {pair.joined}, lost: {pair.lost}, {pair.generations} generations"
    print(f"… seed {pair.seed}: plain, in pieces, workers: {ends}; {happened}", file=sys.stderr, flush=True)


def run_workers(seed: int) -> tuple[RunReport, list[float]]:
    """Run the manifest with a kill and an added worker; return its report and the accuracy after each epoch."""
    manifest = plain.SCRIPT.with_name("job.yaml")
    with tempfile.TemporaryDirectory(prefix="omnilearn-accuracy-") as folder:
        options = RunOptions(
            workdir=manifest.parent,
            output=Path(folder) / "run",
            faults=FAULTS,
            timeout=_RUN_SECONDS,
            env=(("SEED", str(seed)), ("EPOCHS", str(EPOCHS))),
        )
        report = run_job(with_law(the_job(manifest), LawName("Affine")), options, Console(file=StringIO()))
        logs = [log.read_text(encoding="utf-8") for log in sorted((options.output / "logs").glob("*.log"))]
    return report, curve_of(logs)


def curve_of(logs: Iterable[str]) -> list[float]:
    """Return the accuracies that the workers printed, by epoch; rounded to the nearest that test images can give."""
    printed = {int(epoch): float(percent) for log in logs for epoch, percent in _LINE.findall(log)}
    return [round(printed[epoch] / 100 * TEST_IMAGES) / TEST_IMAGES for epoch in sorted(printed)]


def pair_of(
    seed: int, plain_curves: tuple[Sequence[float], Sequence[float]], report: RunReport, curve: Sequence[float]
) -> Pair:
    """Return both trainings as one row; an error if the workers have not come to their end."""
    whole, pieces = plain_curves
    if len(curve) != len(whole):
        raise RuntimeError(f"seed {seed}: {len(curve)} of {len(whole)} epochs were trained ({report.why})")
    told = report.ledger
    amiss = report.audit.lost + report.audit.doubled + (told.lost + told.doubled if told else 0)
    sentences = [event.sentence for event in report.events if event.kind == "generation"]
    return Pair(
        seed,
        tuple(whole),
        tuple(pieces),
        tuple(curve),
        report.generations,
        joined=any("(planned)" in sentence and "joins" in sentence for sentence in sentences),
        lost=any("(urgent)" in sentence for sentence in sentences),
        samples_amiss=amiss,
    )


def interval_of(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and half the width of its 95 % interval, by Student's distribution."""
    return statistics.fmean(values), _STUDENT_95[len(values)] * statistics.stdev(values) / math.sqrt(len(values))


def spread_of(pairs: Sequence[Pair]) -> float:
    """Return the standard deviation of the plain process over seeds, but at least one test image."""
    return max(statistics.stdev(pair.plain[-1] for pair in pairs), 1 / TEST_IMAGES)


def judge(pairs: Sequence[Pair]) -> list[Verdict]:
    """Return the verdicts on all goals."""
    spread = spread_of(pairs)
    mean, half = interval_of([pair.difference for pair in pairs])
    worst = max(pairs, key=lambda pair: abs(pair.difference))
    changed = sum(pair.joined and pair.lost for pair in pairs)
    amiss = sum(pair.samples_amiss for pair in pairs)
    within = f"≤ {spread:.2%}, the spread over seeds"
    return [
        Verdict(
            f"accuracy after {EPOCHS} epochs: mean difference to one process",
            within,
            f"{mean:+.2%} ± {half:.2%}",
            abs(mean) <= spread,
            required=True,
        ),
        Verdict(
            "largest difference of a seed",
            within,
            f"{worst.difference:+.2%} ({images(worst.difference)})",
            abs(worst.difference) <= spread,
            f"seed {worst.seed}",
        ),
        Verdict("samples lost or doubled", "0", str(amiss), amiss == 0, required=True),
        Verdict(
            "runs in which one worker was lost and one joined", f"{len(pairs)}", str(changed), changed == len(pairs)
        ),
    ]


def images(difference: float) -> str:
    """Say how many test images a difference of accuracies is."""
    count = round(abs(difference) * TEST_IMAGES)
    return f"{count} of {TEST_IMAGES} images"


def table_of(pairs: Sequence[Pair]) -> Table:
    """Return the comparison, one seed a row."""
    table = Table(title=f"Accuracy on digits after {EPOCHS} epochs: four unlike workers against one plain process")
    columns = (
        "one process",
        f"in {PIECES} pieces",
        "workers",
        "difference",
        "largest after\nany epoch",
        "by rounding\nalone",
    )
    for column in ("seed", *columns, "generations", "joined", "lost"):
        table.add_column(column, justify="right")
    for pair in pairs:
        table.add_row(
            str(pair.seed),
            f"{pair.plain[-1]:.2%}",
            f"{pair.pieces[-1]:.2%}",
            f"{pair.workers[-1]:.2%}",
            f"{pair.difference:+.2%}",
            f"{pair.widest:.2%}",
            f"{pair.widest_of_rounding:.2%}",
            str(pair.generations),
            *("yes" if happened else "NO" for happened in (pair.joined, pair.lost)),
        )
    ends = [[pair.plain[-1], pair.pieces[-1], pair.workers[-1], pair.difference] for pair in pairs]
    means = [f"{mean:.2%} ± {half:.2%}" for mean, half in map(interval_of, zip(*ends, strict=True))]
    table.add_section()
    table.add_row("mean", *means)
    return table


def draw(pairs: Sequence[Pair], path: Path) -> None:
    """Draw both curves of every seed."""
    from matplotlib import pyplot as plt  # noqa: PLC0415 - takes seconds to import
    from matplotlib.axes import Axes  # noqa: PLC0415

    figure, axes = plt.subplots(figsize=(9, 5))
    assert isinstance(axes, Axes)  # noqa: S101 - for the type checker
    for pair in pairs:
        epochs, first = range(1, len(pair.plain) + 1), pair is pairs[0]
        axes.plot(epochs, pair.plain, color="tab:gray", linewidth=4, alpha=0.4, label="one process" if first else None)
        axes.plot(epochs, pair.workers, color="tab:blue", linewidth=1, label="four workers" if first else None)
    axes.set(title=f"digits, seeds 0–{pairs[-1].seed}", xlabel="epoch", ylabel="accuracy", ylim=(0.5, 1.0))
    axes.legend(loc="lower right")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    print(f"picture: {path}")


if __name__ == "__main__":
    sys.exit(main())
