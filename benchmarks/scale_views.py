"""What `benchmarks.scale` shows: goals, a table, and a picture of the operator over time."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.table import Table

from .goals import Verdict

MIB = 2**20
KUBERAY_SECONDS = 258.0
_RATIO = 2.0

Figures = dict[str, Any]


def judge(results: Figures) -> list[Verdict]:
    """Return the verdicts on all goals, for the largest number of jobs."""
    run = max(results["runs"], key=lambda one: int(one["jobs"]))
    phases, jobs = run["phases"], run["jobs"]
    create, bare, steady = phases["create"], phases["bare"], phases["steady"]
    ratio = create["seconds"] / bare["ready_seconds"]
    peak = max(sample.get("memory", 0) for sample in run["samples"]) / MIB
    cores = steady["cpu_seconds"] / steady["seconds"]
    writes = steady["writes"] / steady["seconds"] / jobs
    p99 = 1000 * phases["latency"]["percentiles"][2]
    restart = max(phases["restart"][name] for name in ("adopted_seconds", "answered_seconds"))
    where = f"{jobs} jobs, {jobs * run['workers']} pods"
    return [
        Verdict(
            "all jobs train",
            f"≤ {KUBERAY_SECONDS:.0f} s (KubeRay's 1 000)",
            f"{create['seconds']:.0f} s; {ratio:.2f} × bare creation ({bare['ready_seconds']:.0f} s)",
            create["seconds"] <= KUBERAY_SECONDS,
            where,
        ),
        Verdict("memory of the operator, peak", "< 300 MiB", f"{peak:.0f} MiB", peak < 300, where),
        Verdict("CPU of the operator, steady", "< 1 core", f"{cores:.2f} cores", cores < 1.0, where),
        Verdict("API writes, steady", "≤ 1 per second and job", f"{writes:.3f}", writes <= 1.0, where),
        Verdict("report → reply, 99 %", "< 50 ms", f"{p99:.1f} ms", p99 < 50, where),
        Verdict("operator killed → all as before", "< 30 s", f"{restart:.1f} s", restart < 30, where),
        *_growth(results["runs"]),
    ]


def _growth(runs: list[Figures]) -> list[Verdict]:
    """Compare the cost of a job as their number grows."""
    ordered = sorted(runs, key=lambda one: int(one["jobs"]))
    if len(ordered) < 2:
        return []
    small, large = ordered[0], ordered[-1]
    verdicts = []
    for phase, what in (("create", "CPU per job until all train"), ("steady", "CPU per job and second, steady")):
        before, after = (_cpu_per_job(run, phase) for run in (small, large))
        ratio = after / before if before else 0.0
        measured = f"{1000 * before:.1f} → {1000 * after:.1f} ms: × {ratio:.2f}"
        where = f"{small['jobs']} → {large['jobs']} jobs"
        verdicts.append(Verdict(what, "no more than linear: × 1", measured, ratio <= 1.1, where))
    return verdicts


def _cpu_per_job(run: Figures, phase: str) -> float:
    figures = run["phases"][phase]
    seconds = figures["seconds"] if phase == "steady" else 1.0
    return float(figures["cpu_seconds"] / run["jobs"] / seconds)


def table_of(results: Figures) -> Table:
    """Return all figures as a table, a column for each number of jobs."""
    runs = results["runs"]
    table = Table(title=f"Jobs of {runs[0]['workers']} workers; {results['cores']} cores for everything")
    table.add_column("figure")
    for run in runs:
        table.add_column(f"{run['jobs']} jobs", justify="right")
    columns = [_column(run) for run in runs]
    for name in columns[0]:
        table.add_row(name, *(column.get(name, "") for column in columns))
    return table


def _column(run: Figures) -> dict[str, str]:
    phases, jobs = run["phases"], run["jobs"]
    bare, create, steady = phases["bare"], phases["create"], phases["steady"]
    latency, restart, delete = phases["latency"], phases["restart"], phases["delete"]
    marks = ", ".join(f"{1000 * each:.1f}" for each in latency["percentiles"])
    rate = steady["seconds"]
    return {
        "bare pods: created, all run": f"{bare['created_seconds']:.1f}, {bare['ready_seconds']:.1f} s",
        "jobs: all train": f"{create['seconds']:.1f} s (× {create['seconds'] / bare['ready_seconds']:.2f})",
        "  operator's CPU, per job": f"{create['cpu_seconds']:.1f} s, {1000 * create['cpu_seconds'] / jobs:.1f} ms",
        "  its writes, per job": f"{create['writes']:.0f}, {create['writes'] / jobs:.1f}",
        "steady: operator's CPU": f"{cores_in(steady):.2f} cores, {1000 * cores_in(steady) / jobs:.2f} ms per job",
        "  writes per second, and job": f"{steady['writes'] / rate:.1f}, {steady['writes'] / rate / jobs:.3f}",
        "  reports, looks per second": f"{steady['reports'] / rate:.0f}, {steady['looks'] / rate:.0f}",
        "  memory": f"{steady['memory'] / MIB:.0f} MiB",
        "report → reply: 50, 90, 99, 99.9, 100 %": f"{marks} ms",
        "  scrape of all metrics": f"{latency['series']} series in {latency['scrape_seconds']:.2f} s",
        "killed: leads, all adopted, all answered": ", ".join(
            f"{restart[name]:.1f}" for name in ("leads_seconds", "adopted_seconds", "answered_seconds")
        )
        + " s",
        "  operator's CPU for that, memory": _cpu_and_memory(restart),
        "  jobs that had to regroup": f"{restart.get('regrouped', 0)}",
        "deleted: forgotten, workers gone": f"{delete['forgotten_seconds']:.1f}, {delete['gone_seconds']:.1f} s",
        "  series of jobs left, tasks": f"{delete['series_of_jobs']}, {delete['tasks']:.0f}",
        "CPU of the API server: bare, jobs, steady": ", ".join(
            f"{phases[name]['cpu_of_others'].get('kube-apiserver', 0.0):.0f}" for name in ("bare", "create", "steady")
        )
        + " s",
    }


def _cpu_and_memory(restart: Figures) -> str:
    return f"{restart['operator_cpu_seconds']:.1f} s, {restart['memory'] / MIB:.0f} MiB"


def cores_in(figures: Figures) -> float:
    """Return the CPU of a phase in cores."""
    return float(figures["cpu_seconds"] / figures["seconds"])


def draw(results: Figures, path: Path) -> None:
    """Draw memory, CPU and queue of the largest run over time."""
    from matplotlib import pyplot as plt  # noqa: PLC0415 - takes seconds to import

    run = max(results["runs"], key=lambda one: int(one["jobs"]))
    samples = [each for each in run["samples"] if "memory" in each]
    figure, axes = plt.subplots(3, 1, figsize=(11, 8), sharex=True)
    times = [each["at"] for each in samples]
    axes[0].plot(times, [each["memory"] / MIB for each in samples])
    axes[0].axhline(300, color="black", linestyle=":", linewidth=1)
    axes[0].set(ylabel="memory (MiB)", ylim=0, title=f"operator, {run['jobs']} jobs of {run['workers']} workers")
    pairs = [(a, b) for a, b in pairwise(samples) if b["cpu_seconds"] >= a["cpu_seconds"]]
    axes[1].plot(
        [b["at"] for _, b in pairs], [(b["cpu_seconds"] - a["cpu_seconds"]) / (b["at"] - a["at"]) for a, b in pairs]
    )
    axes[1].axhline(1, color="black", linestyle=":", linewidth=1)
    axes[1].set(ylabel="CPU (cores)", ylim=0)
    axes[2].plot(times, [each["queue"] for each in samples], label="jobs that wait for their turn")
    axes[2].plot(times, [each["events_waiting"] for each in samples], label="events to be written")
    axes[2].set(ylabel="queue", xlabel="s", ylim=0)
    axes[2].legend(loc="upper right")
    for begin, name in _beginnings(samples):
        for each in axes:
            each.axvline(begin, color="lightgray", linewidth=1, zorder=0)
        axes[0].text(begin, 1.0, f" {name}", transform=axes[0].get_xaxis_transform(), va="top", color="gray")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    print(f"picture: {path}")


def _beginnings(samples: list[Figures]) -> list[tuple[float, str]]:
    found: list[tuple[float, str]] = []
    for each in samples:
        if not found or found[-1][1] != each["phase"]:
            found.append((each["at"], each["phase"]))
    return found
