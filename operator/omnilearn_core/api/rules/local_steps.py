"""Rules about options of LocalSGD that do not fit together."""

from __future__ import annotations

from omnilearn_core.api.strategy import Aggregation, LocalSGD, LocalSteps, Outer, Sampling

from .rule import Rule, Values

_AT = "spec.strategy.localSGD"
_ALL_PERCENT = 100


def _nobody_is_slow(options: LocalSGD) -> Values | None:
    biased = options.sampling is Sampling.LOSS_BIASED
    return () if biased and options.steps is LocalSteps.FIXED else None


def _exponent_of_nothing(options: LocalSGD) -> Values | None:
    uniform = options.aggregation is Aggregation.UNIFORM
    return (options.exponent_percent,) if uniform and options.exponent_percent not in (0, _ALL_PERCENT) else None


def _rate_of_nothing(options: LocalSGD) -> Values | None:
    rate = options.outer_rate_percent
    return (rate,) if rate is not None and options.outer is Outer.NONE else None


RULES: tuple[Rule, ...] = (
    Rule(
        at=_AT,
        field="sampling",
        sentence="sampling is LossBiased, but steps is Fixed: everybody has the same share then, so that nobody is slow"
        " or fast; set steps to Proportional or Shares",
        cel=f"self.sampling != '{Sampling.LOSS_BIASED}' || self.steps != '{LocalSteps.FIXED}'",
        values=(),
        broken=_nobody_is_slow,
    ),
    Rule(
        at=_AT,
        field="exponentPercent",
        sentence="exponentPercent is %d, but aggregation is Uniform, in which every model weighs the same: set"
        " aggregation to BySteps, or remove one of them",
        cel=f"self.aggregation != '{Aggregation.UNIFORM}' || self.exponentPercent in [0, {_ALL_PERCENT}]",
        values=("self.exponentPercent",),
        broken=_exponent_of_nothing,
    ),
    Rule(
        at=_AT,
        field="outerRatePercent",
        sentence="outerRatePercent is %d, but outer is None, which takes the mean as it is: set outer to Momentum or"
        " Nesterov, or remove it",
        cel=f"!has(self.outerRatePercent) || self.outer != '{Outer.NONE}'",
        values=("self.outerRatePercent",),
        broken=_rate_of_nothing,
    ),
)
