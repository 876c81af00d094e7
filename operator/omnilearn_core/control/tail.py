"""How much of the global batch a plan leaves to whoever is early. Pure; measured in docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Sequence

from .reports import Member

# Percent of the global batch, unless the job says otherwise.
USUAL_PERCENT = 30

# Laws that follow measured speeds: the others do as they were told.
_FOLLOWING = ("Affine", "Proportional")

# Steps shorter than this have no time for pieces; once there is a tail, it stays until they are half as long.
_SHORTEST_STEP_SECONDS = 0.5


def tail_samples(
    global_batch: int,
    members: Sequence[Member],
    percent: int | None,
    law: str,
    step_seconds: float | None,
    before: int,
) -> int:
    """Return the samples of a step that nobody is given; ``before`` were so far, in steps of ``step_seconds``.

    ``percent`` is what the job asks for; None leaves it to us. A bound on the shares forbids to give somebody more.
    """
    if len(members) < 2 or any(member.maximum is not None for member in members):
        return 0
    if percent is None:
        percent = USUAL_PERCENT if law in _FOLLOWING and _pays(members, step_seconds, before) else 0
    least = sum(max(1, member.minimum) for member in members)
    return max(0, min(global_batch * percent // 100, global_batch - least))


def _pays(members: Sequence[Member], step_seconds: float | None, before: int) -> bool:
    """Tell whether small pieces do no harm and cost little, as measured: on CPUs, and where a step has the time."""
    if step_seconds is None or any(member.device != "cpu" or not member.in_pieces for member in members):
        return False
    return step_seconds >= _SHORTEST_STEP_SECONDS / (2.0 if before else 1.0)
