"""The goals of the default law, judged on the measured figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from .arms import TOLD

LAW = "Affine"
RIVALS = ("Proportional", "Released")


@dataclass(frozen=True, slots=True)
class Verdict:
    """One goal: what was wanted, what was measured, where it was worst."""

    goal: str
    wanted: str
    measured: str
    met: bool
    where: str = ""
    required: bool = False  # whether missing it is a failure; the others are known not to be met everywhere

    def as_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


def judge(results: dict[str, Any]) -> list[Verdict]:
    """Return the verdicts on all goals."""
    return [
        _steady(results, 0.03, 1.02),
        _steady(results, 0.08, 1.05),
        _after_change(results, noise=0.03, fixed_share=0.2),
        _after_change(results, noise=0.03, fixed_share=0.85),
        _after_change(results, noise=0.08, fixed_share=0.85),
        _schedule(results, LAW, "by reports alone"),
        _schedule(results, LAW + TOLD, "told the CPU quotas", required=True),
        _never_behind(results),
        *[_decision(row, limit) for row in results["decisions"] for w, limit in _LIMITS if row["workers"] == w],
    ]


_LIMITS = ((100, 1.0), (1000, 10.0))


def _steady(results: dict[str, Any], noise: float, limit: float) -> Verdict:
    cells = [cell for cell in results["steady"] if cell["noise"] == noise]
    worst = max(cells, key=lambda cell: cell["arms"][LAW]["steady"])
    figure = worst["arms"][LAW]["steady"]
    return Verdict(
        f"steady step time over the oracle's, {noise:.0%} noise, worst of {len(cells)} cells",
        f"≤ {limit}",
        f"{figure:.3f}",
        figure <= limit,
        place(worst),
        required=True,
    )


def _after_change(results: dict[str, Any], noise: float, fixed_share: float) -> Verdict:
    """Judge the cells up to a noise and a fixed-cost share; with the largest of both, all of them."""
    cells = [c for c in results["changes"] if c["noise"] <= noise and c["fixed_share"] <= fixed_share]
    worst = max(cells, key=_third_window)
    late = sum(_third_window(cell) > 1.05 for cell in cells)
    rival = worst["arms"]["Proportional"][2]
    return Verdict(
        f"within 5 % of the oracle two windows after a change of level, noise ≤ {noise:.0%}, fixed ≤ {fixed_share:.0%}",
        f"all {len(cells)} cells",
        f"{len(cells) - late}, worst {_third_window(worst):.3f} (Proportional {rival:.3f})",
        late == 0,
        place(worst),
    )


def _third_window(cell: dict[str, Any]) -> float:
    return float(cell["arms"][LAW][2])


def _schedule(results: dict[str, Any], arm: str, how: str, required: bool = False) -> Verdict:
    cell = next(
        c
        for c in results["schedules"]
        if (c["fixed_share"], c["noise"], c["workers"], c["fixed_scales"]) == (0.2, 0.02, 4, False)
    )
    figure, late, best = (cell["arms"][name] for name in (arm, "One window late", "Oracle"))
    return Verdict(
        f"schedule 1-2-4-8-8-4-2-1 over uniform, ten windows a phase, {how}",
        "≥ 1.66",
        f"{figure:.3f} (knowing all, one window late: {late:.3f}; oracle {best:.3f})",
        figure >= 1.66,
        place(cell),
        required,
    )


def _never_behind(results: dict[str, Any]) -> Verdict:
    behind = [
        *_behind_in_steady(results["steady"]),
        *_behind_after_changes(results["changes"]),
        *_behind_in_schedules(results["schedules"]),
    ]
    worst, where = max(behind)
    count = sum(ratio > 1.01 for ratio, _ in behind)
    return Verdict(
        f"behind Proportional or the released rule by more than 1 %, of {len(behind)} cells",
        "0",
        f"{count}, worst {worst - 1.0:+.1%}",
        count == 0,
        where,
    )


def _behind_in_steady(cells: Iterable[dict[str, Any]]) -> Iterable[tuple[float, str]]:
    for cell in cells:
        for figure in ("steady", "run"):
            best = min(cell["arms"][rival][figure] for rival in RIVALS)
            yield cell["arms"][LAW][figure] / best, f"{figure}: {place(cell)}"


def _behind_after_changes(cells: Iterable[dict[str, Any]]) -> Iterable[tuple[float, str]]:
    """Compare the whole time after a change of level, recovery included."""
    for cell in cells:
        best = min(sum(cell["arms"][rival]) for rival in RIVALS)
        yield sum(cell["arms"][LAW]) / best, f"after a change: {place(cell)}"


def _behind_in_schedules(cells: Iterable[dict[str, Any]]) -> Iterable[tuple[float, str]]:
    for cell in cells:
        yield max(cell["arms"][rival] for rival in RIVALS) / cell["arms"][LAW], f"schedule: {place(cell)}"


def _decision(row: dict[str, Any], limit: float) -> Verdict:
    return Verdict(
        f"a decision for {row['workers']} workers, median",
        f"< {limit:g} ms",
        f"{row['median']:.2f} ms (best {row['best']:.2f})",
        row["median"] < limit,
    )


def place(cell: dict[str, Any]) -> str:
    """Say which cell this is."""
    level = f"HL{cell['level']}" + (f"→{cell['to_level']}" if cell["to_level"] else "")
    kind = "scaling" if cell["fixed_scales"] else "constant"
    return f"{level}, {cell['workers']} workers, {cell['fixed_share']:.0%} {kind} fixed cost, {cell['noise']:.0%} noise"
