"""Which engine runs a job, and what feeds it: by the job's strategy. Used by `session`."""

from __future__ import annotations

from collections.abc import Callable

from omnilearn_core.api.strategy import Asynchronous

from .asynchronous.engine import AsynchronousRounds
from .asynchronous.feeding import AsynchronousFeeder
from .environment import Environment
from .faults import Faults
from .feeding import Feeder
from .joining import own_address
from .loading import Loader
from .membership import Membership
from .rounds import Rounds
from .strategies import Learner, RemoteLearner
from .work import Committed


def rounds_of(
    environment: Environment,
    learner: Learner,
    membership: Membership,
    faults: Faults,
    on_commit: Callable[[Committed], None],
) -> Rounds:
    """Return the engine for a learner."""
    if not isinstance(learner, RemoteLearner):
        return Rounds(learner, membership, faults, on_commit)
    welcome = membership.welcome
    options = (None if welcome is None else welcome.strategy.asynchronous) or Asynchronous()
    who = (environment.worker, environment.attempt, own_address(environment))
    return AsynchronousRounds(learner, membership, faults, on_commit, options, who)


def feeder_of(rounds: Rounds, loader: Loader, size: int, global_batch: int) -> Feeder:
    """Return what feeds an engine."""
    kind = AsynchronousFeeder if isinstance(rounds, AsynchronousRounds) else Feeder
    return kind(rounds, loader, size, global_batch)  # type: ignore[arg-type]
