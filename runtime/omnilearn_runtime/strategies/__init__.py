"""How the workers cooperate: what a piece of work is, what is exchanged, and what becomes of the model.

A strategy is a `Learner`: the engine (`rounds`) hands out samples, moves sums and commits; the learner says what is
done with them.
"""

from __future__ import annotations

from omnilearn_core.api.strategy import Strategy, StrategyType
from omnilearn_runtime.managed import Managed

from .hierarchical import HierarchicalLearner
from .learner import DivergedError, Learner
from .local import LocalLearner
from .remote import RemoteLearner

__all__ = ["DivergedError", "Learner", "RemoteLearner", "learner_of", "successor_of"]


def learner_of(strategy: Strategy, managed: Managed) -> Learner:
    """Return the learner of a strategy; before it has chosen, Auto is as Synchronous."""
    match strategy.type:
        case StrategyType.SYNCHRONOUS | StrategyType.AUTO:
            return Learner(managed)
        case StrategyType.LOCAL_SGD:
            return LocalLearner(managed, strategy.local)
        case StrategyType.HIERARCHICAL:
            return HierarchicalLearner(managed, strategy.in_groups)
        case StrategyType.ASYNCHRONOUS:
            return RemoteLearner(managed)


def successor_of(learner: Learner, strategy: Strategy) -> Learner:
    """Return the learner of another strategy, which begins with the model and the optimizers as they are."""
    learner.buckets.close()
    after = learner_of(strategy, learner.managed)
    if learner.in_pass is not None:
        after.begin_pass(*learner.in_pass)
    return after
