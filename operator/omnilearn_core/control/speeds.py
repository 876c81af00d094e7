"""Speeds of members before, or without, a measurement of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .reports import Member, Situation
from .shares import apportion


def declared(members: Sequence[Member]) -> tuple[list[float], str] | None:
    """Return weights that the user declared, by capacity or else by CPU quota, if every member has one."""
    capacities = [member.capacity for member in members]
    if all(capacity is not None and capacity > 0 for capacity in capacities):
        return [float(capacity or 0) for capacity in capacities], "declared capacity"
    quotas = [member.quota for member in members]
    if all(quota is not None and quota > 0 for quota in quotas):
        return [float(quota or 0) for quota in quotas], "CPU quota"
    return None


def complete(members: Sequence[Member], known: Mapping[str, float]) -> list[float] | None:
    """Return a speed for every member; who has none is taken to be like its group, then like all others."""
    if not any(member.worker in known for member in members):
        return None
    groups: dict[str, list[float]] = {}
    for member in members:
        if member.worker in known:
            groups.setdefault(member.group, []).append(known[member.worker])
    everybody = [speed for speeds in groups.values() for speed in speeds]
    return [
        known[member.worker] if member.worker in known else _mean(groups.get(member.group, everybody))
        for member in members
    ]


def by_weight(situation: Situation, weights: Sequence[float]) -> dict[str, int]:
    """Return the shares in proportion to ``weights``, within the bounds."""
    shares = apportion(situation.global_batch, weights, situation.bounds())
    return {member.worker: share for member, share in zip(situation.members, shares, strict=True)}


def opening(situation: Situation, known: Mapping[str, float]) -> tuple[dict[str, int], str]:
    """Return the split before anybody has measured under it: from what is known, declared, or equal."""
    speeds = complete(situation.members, known)
    if speeds is not None:
        return by_weight(situation, speeds), "split by known speeds"
    stated = declared(situation.members)
    if stated is not None:
        return by_weight(situation, stated[0]), f"split by {stated[1]}"
    return by_weight(situation, [1.0] * len(situation.members)), "equal shares until speeds are measured"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
