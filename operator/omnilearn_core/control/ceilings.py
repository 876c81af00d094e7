"""Ceilings: shares above which a worker was slower than below (memory, cache) and held up everybody else.

`Affine` and `Proportional` learn them, keep to them for a while, then try more again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from .bounded import Amount, Count, Share
from .reports import Situation

_NO_LIMIT = 2**24


class Ceiling(NamedTuple):
    """The most samples to give to a worker before window ``until``, so that steps of ``step`` seconds do not recur."""

    share: Share
    until: Count
    step: Amount


def standing(ceilings: Mapping[str, Ceiling], window: int, step: float) -> dict[str, Ceiling]:
    """Return the ceilings that count in ``window``, after a step of ``step`` seconds.

    One under which steps are even longer than without it limits nothing any more: there is no cliff, the worker just
    gets slower the more it has, and whoever had to take the rest is slower still.
    """
    return {
        worker: ceiling._replace(share=_NO_LIMIT) if step > ceiling.step else ceiling
        for worker, ceiling in ceilings.items()
        if ceiling.until > window
    }


def under(ceilings: Mapping[str, Ceiling], situation: Situation) -> Situation:
    """Return the situation with the ceilings as bounds, or as it is if the batch would not fit under them."""
    if not ceilings:
        return situation
    members = tuple(
        member
        if (ceiling := ceilings.get(member.worker)) is None
        or (member.maximum is not None and member.maximum <= ceiling.share)
        else replace(member, maximum=max(member.minimum, ceiling.share))
        for member in situation.members
    )
    lowered = replace(situation, members=members)
    return lowered if sum(high for _, high in lowered.bounds()) >= situation.global_batch else situation
