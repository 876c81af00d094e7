"""How the workers cooperate: what a piece of work is, what is exchanged, and what becomes of the model.

A strategy is a `Learner`: the engine (`rounds`) hands out samples, moves sums and commits; the learner says what is
done with them.
"""

from __future__ import annotations

from omnilearn_core.api.messages import Welcome
from omnilearn_core.api.strategy import Strategy, StrategyType
from omnilearn_runtime.managed import Managed

from .hierarchical import HierarchicalLearner
from .learner import DivergedError, Learner
from .local import LocalLearner
from .remote import RemoteLearner

__all__ = ["DivergedError", "Learner", "RemoteLearner", "learner_of"]


def learner_of(welcome: Welcome | None, managed: Managed) -> Learner:
    """Return the learner of a job's strategy, as the coordinator has told it."""
    strategy = Strategy() if welcome is None else welcome.strategy
    match strategy.type:
        case StrategyType.SYNCHRONOUS:
            return Learner(managed)
        case StrategyType.LOCAL_SGD:
            return LocalLearner(managed, strategy.local)
        case StrategyType.HIERARCHICAL:
            return HierarchicalLearner(managed, strategy.in_groups)
        case StrategyType.ASYNCHRONOUS:
            return RemoteLearner(managed)
