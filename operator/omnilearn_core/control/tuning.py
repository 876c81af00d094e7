"""The numbers of the `Affine` law, in one place. Ratios are relative to the step time unless said otherwise."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tuning:
    """How `Affine` learns and when it acts; chosen on the simulator (docs/decisions.md)."""

    # A worker's first window
    first_fixed: float = 0.2  # taken to be fixed cost, …
    first_doubt: float = 0.3  # … give or take this
    first_noise: float = 0.03  # noise of a window before any is measured, …
    first_noise_windows: float = 8.0  # … worth this many windows

    # Following it
    noise_windows: float = 60.0  # how many windows of noise are remembered
    drift: float = 0.01  # change of speed per window that needs no explanation
    jump_sigmas: float = 3.5  # one reading this far off is a change of speed, …
    creep_slack: float = 0.5  # … and so are several, each off by more than this, …
    creep_sigmas: float = 3.5  # … that add up to this,
    jump_least: float = 0.02  # unless it is too small to matter
    least_slope: float = 0.02  # per-sample cost is at least this part of the step
    quota_doubt: float = 0.1  # how far from proportional the effect of a new CPU quota may be

    # Acting
    gain: float = 0.01  # a change must promise at least this, …
    caution: float = 0.5  # … even if those who get more are this many sigmas slower than thought
    trust: int = 4  # a share moves at most by this factor at a time

    # Ceilings: throughput that fell after a share grew
    cliff: float = 0.2  # by this much, beyond noise: cores that are shared make everybody slower, but not so much
    ceiling_windows: int = 50  # when to try more again

    # Resting: workers that cost more than they bring, where minPerWorker is 0
    rest_gain: float = 0.05  # a step must become shorter by this much
    rest_after: int = 3  # windows that a worker must have been measured
    probe_windows: int = 30  # when to try it again; doubled each time it was in vain …
    probe_windows_most: int = 240  # … up to this

    # Falling back to throughput when the lines promise more than they deliver
    promise: float = 0.1  # a step longer than promised by this much, beyond noise, …
    promise_windows: int = 3  # … so many windows in a row, …
    fallback_windows: int = 20  # … for so long

    curves_most: int = 4096  # curves to remember, of present and past workers
