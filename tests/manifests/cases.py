"""What a case says: a manifest or a change of one, and every problem that must be found in it."""

from __future__ import annotations

from typing import NamedTuple

from omnilearn_core.api.job import OmniLearnJob
from omnilearn_core.api.strategy import Strategy, StrategyType
from omnilearn_core.api.validate import Problem

from .build import ABSENT, Manifest, changed


class Bad(NamedTuple):
    """A manifest that is refused. The API server says the same sentences if rules are broken, else its own."""

    manifest: Manifest
    problems: tuple[Problem, ...]
    by_rule: bool


class Change(NamedTuple):
    """A job, what somebody makes of it, and why that is refused, if it is."""

    old: Manifest
    new: Manifest
    problems: tuple[Problem, ...] = ()


def breaks(manifest: Manifest, *problems: tuple[str, str]) -> Bad:
    """Return a manifest that breaks rules: for each of them the path and the sentence."""
    return Bad(manifest, tuple(Problem(*problem) for problem in problems), by_rule=True)


def refused(manifest: Manifest, path: str, sentence: str) -> Bad:
    """Return a manifest that the schema refuses."""
    return Bad(manifest, (Problem(path, sentence),), by_rule=False)


def stored(manifest: Manifest) -> OmniLearnJob:
    """Return a job as it is read back: a strategy of a version that has more of them is no reason to refuse it."""
    strategy = manifest["spec"].get("strategy")
    if strategy is None or strategy["type"] in list(StrategyType):
        return OmniLearnJob.from_manifest(manifest)
    job = OmniLearnJob.from_manifest(changed(manifest, "spec.strategy", ABSENT))
    return job.model_copy(
        update={"spec": job.spec.model_copy(update={"strategy": Strategy.model_construct(**strategy)})}
    )
